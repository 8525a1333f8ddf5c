"""Gemma: mappings with quotes of their own."""

from typing import Any

import pytest


@pytest.mark.parametrize(
    ("opening", "closing", "quote"),
    [
        ("<|tool_call>", "<tool_call|>", '<|"|>'),
        ("<start_function_call>", "<end_function_call>", "<escape>"),
    ],
)
def test_both_generations_are_read(bench: Any, opening: str, closing: str, quote: str) -> None:
    text = (
        f'{opening}call:write_file{{content:{quote}a "b", {{c}} \\n <x>{quote},overwrite:true,'
        f"lines:[1,2],options:{{key:{quote}v{quote}}}}}{closing}"
    )
    found = bench.parse_anyhow(bench.family("gemma"), text)
    expected = {
        "content": 'a "b", {c} \\n <x>',
        "overwrite": True,
        "lines": [1, 2],
        "options": {"key": "v"},
    }
    assert found.values == [("write_file", expected)]


def test_mark_without_a_call_is_text(bench: Any) -> None:
    for text in ("<|tool_call>", "<|tool_call>ping{}", "<|tool_call>call:nobody{}<tool_call|>"):
        assert bench.parse_anyhow(bench.family("gemma"), text).content == text


def test_key_in_quotes_is_read_whose_mark_comes_in_pieces(bench: Any) -> None:
    text = '<|tool_call>call:get_weather{<|"|>city<|"|>:<|"|>Oslo<|"|>}<tool_call|>'
    found = bench.parse_anyhow(bench.family("gemma"), text)
    assert found.values == [("get_weather", {"city": "Oslo"})]
    assert found.content == ""
