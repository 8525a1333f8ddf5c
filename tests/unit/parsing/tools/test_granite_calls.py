"""Granite 3: a JSON list behind a mark."""

from typing import Any


def test_both_openings_are_read_and_text_goes_on_behind_the_list(bench: Any) -> None:
    for mark in ("<|tool_call|>", "<tool_call>"):
        text = f'{mark} [{{"name": "ping", "arguments": {{}}}}, {{"name": "ping"}}]\nDone.'
        found = bench.parse_anyhow(bench.family("granite"), text)
        assert found.calls == [("ping", "{}")] * 2
        assert found.content == "Done."
