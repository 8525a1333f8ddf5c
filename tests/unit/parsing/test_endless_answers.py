"""Answers that never close what they opened cost no more than their length, however they are cut."""

from typing import Any

import pytest

from refloat.parsing.families import REASONING_FAMILIES
from refloat.parsing.parts import Parser, Part, Reasoning, merged
from refloat.parsing.reasoning.tagged import TaggedReasoning
from refloat.parsing.source import Source
from refloat.parsing.tools.json_calls import JsonCalls

PIECES = 6_000
#: Looks at a text of 6,000 characters that grows by one: each time it grows by a sixteenth, after the
#: first 2,048.
MOST_LOOKS = 2_100

ENDLESS = [
    ("hermes", "text", "\n"),
    ("hermes", '<tool_call>{"', "x"),
    ("minicpm", '<function name="write_file"><param name="content"><![CDATA[', "]"),
    ("llama4_pythonic", "[write_file(", ","),
    ("deepseek_v3", "<｜tool▁calls▁begin｜>", "\n"),
    ("gpt_oss", "", "\n"),
]


class _Looks:
    """Counts how often a source's text is read by a parser."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        add = Source.add

        def counted(source: Source, text: str) -> bool:
            worth = add(source, text)
            self.count += worth
            return worth

        monkeypatch.setattr(Source, "add", counted)


@pytest.mark.parametrize("cut", [False, True])
@pytest.mark.parametrize(("family", "head", "piece"), ENDLESS, ids=[case[0] for case in ENDLESS])
def test_endless_answer_is_not_read_anew_for_each_piece(
    bench: Any, monkeypatch: pytest.MonkeyPatch, family: str, head: str, piece: str, cut: bool
) -> None:
    looks = _Looks(monkeypatch)
    text = head + piece * PIECES

    found = bench.parse(bench.family(family), text, (len(head) or 1, 1), cut=cut)

    assert looks.count < MOST_LOOKS
    assert found.parts == bench.parse(bench.family(family), text, cut=cut).parts


def test_endless_blanks_in_reasoning_are_not_read_anew_for_each_piece(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looks = _Looks(monkeypatch)
    tags = REASONING_FAMILIES["think"].tags
    assert tags is not None
    parser: Parser = TaggedReasoning(tags)
    assert parser.push("<think>hm") == [Reasoning("hm")]

    said: list[Part] = [part for _ in range(PIECES) for part in parser.push("\n")]
    said += parser.push("so" * 1000)
    said += parser.finish(cut=True)

    assert looks.count < MOST_LOOKS
    assert merged(said) == [Reasoning("\n" * PIECES + "so" * 1000)]


def test_openings_in_one_another_are_read_to_the_end_only_so_often(
    bench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = 0
    step = JsonCalls.read

    def counted(reader: JsonCalls, source: Source, calls: Any) -> Any:
        nonlocal read
        read += 1
        return step(reader, source, calls)

    monkeypatch.setattr(JsonCalls, "read", counted)
    text = '<tool_call>{"x": [' * 300

    found = bench.parse(bench.family("hermes"), text)

    assert read < 60
    assert found.content == text
    assert not found.calls
