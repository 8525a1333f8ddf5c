"""DeepSeek: calls in a section, with a fence around the arguments or without."""

from typing import Any

import pytest

BEGIN, END = "<｜tool▁call▁begin｜>", "<｜tool▁call▁end｜>"
SECTION, SECTION_END = "<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>"


@pytest.mark.parametrize(
    "call",
    [
        f'{BEGIN}function<｜tool▁sep｜>get_weather\n```json\n{{"city": "Oslo"}}\n```{END}',
        f'{BEGIN}function<｜tool▁sep｜>get_weather\n{{"city": "Oslo"}}{END}',
        f'{BEGIN}get_weather<｜tool▁sep｜>{{"city": "Oslo"}}{END}',
    ],
)
def test_older_format_is_read_with_or_without_fence_and_section(bench: Any, call: str) -> None:
    for text in (f"So\n{SECTION}{call}\n{SECTION_END}", f"So\n{call}", f"So\n{SECTION}{call}"):
        found = bench.parse_anyhow(bench.family("deepseek_v3"), text)
        assert found.values == [("get_weather", {"city": "Oslo"})]
        assert found.content == "So"


def test_undeclared_call_beside_a_declared_one_is_text(bench: Any) -> None:
    other = f"{BEGIN}nobody<｜tool▁sep｜>{{}}{END}"
    text = f"{SECTION}{other}{BEGIN}ping<｜tool▁sep｜>{{}}{END}{SECTION_END}"
    found = bench.parse_anyhow(bench.family("deepseek_v31"), text)
    assert found.calls == [("ping", "{}")]
    assert found.content == SECTION + other
