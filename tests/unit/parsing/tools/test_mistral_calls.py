"""Mistral and Devstral: a JSON list, or a name with arguments."""

from typing import Any

import pytest

EXPECTED: list[Any] = [("get_weather", {"city": "Oslo"}), ("ping", {})]


@pytest.mark.parametrize("family", ["mistral", "devstral"])
@pytest.mark.parametrize(
    "text",
    [
        '[TOOL_CALLS] [{"name": "get_weather", "arguments": {"city": "Oslo"}}, '
        '{"name": "ping", "arguments": {}, "id": "a"}]',
        '[TOOL_CALLS]get_weather[ARGS]{"city": "Oslo"}[TOOL_CALLS]ping[ARGS]{}',
        '[TOOL_CALLS]get_weather[CALL_ID]abcdefghi[ARGS]{"city": "Oslo"}[TOOL_CALLS]ping[ARGS]{}',
        '[TOOL_CALLS]get_weather{"city": "Oslo"}[TOOL_CALLS]ping{}',
    ],
)
def test_every_format_of_the_family_is_read(bench: Any, family: str, text: str) -> None:
    found = bench.parse_anyhow(bench.family(family), text)
    assert found.values == EXPECTED
    assert found.content == ""


def test_mark_without_a_call_is_text(bench: Any) -> None:
    for text in ("[TOOL_CALLS]", "[TOOL_CALLS] as a word", "[TOOL_CALLS]nobody[ARGS]{}"):
        assert bench.parse_anyhow(bench.family("mistral"), text).content == text
