"""Llama 4: an answer that is a list of Python calls."""

from typing import Any

import pytest


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("'it\\'s'", "it's"),
        ('"a\\n\\u00e9\\x41"', "a\néA"),
        ("(1, 2,)", [1, 2]),
        ("{'k': True, 'n': None,}", {"k": True, "n": None}),
        ("celsius", "celsius"),
        ("-1.5", -1.5),
        ("[ ]", []),
    ],
)
def test_python_value_becomes_json(bench: Any, text: str, value: Any) -> None:
    found = bench.parse_anyhow(bench.family("llama4_pythonic"), f"[write_file(content={text})]")
    assert found.values == [("write_file", {"content": value})]


def test_marks_around_the_list_are_markup(bench: Any) -> None:
    text = "So:\n<|python_start|>[ping(), get_weather(city='Oslo')]<|python_end|>"
    found = bench.parse_anyhow(bench.family("llama4_pythonic"), text)
    assert found.values == [("ping", {}), ("get_weather", {"city": "Oslo"})]
    assert found.content == "So:"


def test_list_that_calls_nothing_is_text(bench: Any) -> None:
    for text in ("[1, 2, 3]", "[a link](http://x)", "[", "[nobody(a=1)]"):
        assert bench.parse_anyhow(bench.family("llama4_pythonic"), text).content == text


def test_argument_without_a_key_ends_the_call(bench: Any) -> None:
    found = bench.parse_anyhow(bench.family("llama4_pythonic"), "[get_weather('Oslo')]")
    assert found.calls == [("get_weather", "{}")]
    assert found.content == "'Oslo')]"
