"""Llama 3: an answer that is nothing but JSON."""

from typing import Any

CALL = '{"name": "get_weather", "parameters": {"city": "Oslo"}}'


def test_answer_that_is_a_call_is_one(bench: Any) -> None:
    for text in (
        CALL,
        f"\n {CALL}",
        f"<|python_tag|>{CALL}",
        f'{CALL[:1]}"type": "function", {CALL[1:]}',
    ):
        found = bench.parse_anyhow(bench.family("llama3_json"), text)
        assert found.values == [("get_weather", {"city": "Oslo"})]
        assert found.content == ""


def test_json_behind_other_text_is_text(bench: Any) -> None:
    text = f"For example: {CALL}"
    assert bench.parse_anyhow(bench.family("llama3_json"), text).content == text


def test_json_that_calls_nothing_is_text(bench: Any) -> None:
    for text in ('{"answer": 42}', '{"name": "Bob", "age": 42}', '{"name": 5}', "{", "{}"):
        found = bench.parse_anyhow(bench.family("llama3_json"), text)
        assert (found.content, found.calls) == (text, [])
