"""LFM2: Python calls between marks, or JSON."""

from typing import Any


def test_json_between_the_marks_is_read_too(bench: Any) -> None:
    for inner in (
        '[get_weather(city="Oslo")]',
        'get_weather(city="Oslo")',
        '[{"name": "get_weather", "arguments": {"city": "Oslo"}}]',
    ):
        text = f"<|tool_call_start|>{inner}<|tool_call_end|>Checking."
        found = bench.parse_anyhow(bench.family("lfm2"), text)
        assert found.values == [("get_weather", {"city": "Oslo"})]
        assert found.content == "Checking."
