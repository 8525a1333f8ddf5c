"""Kimi K2: names with numbers, in a section."""

from typing import Any

CALL = '<|tool_call_begin|>functions.get_weather:3<|tool_call_argument_begin|>{"city": "Oslo"}'


def test_number_and_namespace_are_no_part_of_the_name(bench: Any) -> None:
    for name in ("functions.get_weather:3", "get_weather", "get_weather:12", " get_weather "):
        text = f'<|tool_call_begin|>{name}<|tool_call_argument_begin|>{{"city": "Oslo"}}'
        found = bench.parse_anyhow(bench.family("kimi_k2"), text)
        assert found.values == [("get_weather", {"city": "Oslo"})]


def test_section_that_is_left_open_hides_nothing(bench: Any) -> None:
    text = f"<|tool_calls_section_begin|>{CALL}<|tool_call_end|>\nDone."
    found = bench.parse_anyhow(bench.family("kimi_k2"), text)
    assert found.content == "Done."
    assert len(found.calls) == 1
