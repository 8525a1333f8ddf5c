"""Phi-4-mini: two openings for one list."""

from typing import Any

LIST = '[{"name": "get_weather", "arguments": {"city": "Oslo"}}]'


def test_both_openings_are_read(bench: Any) -> None:
    for text in (f"functools{LIST}", f"<|tool_call|>{LIST}<|/tool_call|>"):
        found = bench.parse_anyhow(bench.family("phi4"), text)
        assert found.values == [("get_weather", {"city": "Oslo"})]
        assert found.content == ""


def test_word_of_the_opening_is_a_word(bench: Any) -> None:
    text = "Python's functools[0] and functools.cache"
    assert bench.parse_anyhow(bench.family("phi4"), text).content == text
