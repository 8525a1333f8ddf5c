"""A choice's text being parsed: whether it has called, and a parser that fails."""

import pytest

from refloat.generation.reading import Reading
from refloat.parsing.parts import CallBegin, CallEnd, Content, Part, Reasoning


class Script:
    """Gives out what it is told to, then fails."""

    is_done = False

    def __init__(self, *parts: list[Part]) -> None:
        self._parts = list(parts)

    def push(self, text: str) -> list[Part]:
        return self._parts.pop(0)

    def finish(self, *, cut: bool) -> list[Part]:
        return self._parts.pop(0)


def test_calls_count_once_the_last_is_whole() -> None:
    reading = Reading(Script([CallBegin(0, "a", "f")], [CallEnd(0), CallBegin(1, "b", "f")], []))
    seen = [reading.has_called]
    for _ in range(2):
        reading.push("x")
        seen.append(reading.has_called)
    assert seen == [False, False, False]
    reading = Reading(Script([CallBegin(0, "a", "f"), CallEnd(0)]))
    reading.push("x")
    assert reading.has_called


def test_parser_that_fails_costs_its_answer_nothing_but_the_parsing(
    capsys: pytest.CaptureFixture[str],
) -> None:
    reading = Reading(Script([Content("a")]))
    assert reading.push("a") == [Content("a")]
    assert reading.push("b") == [Content("b")]
    assert reading.push("c") == [Content("c")]
    assert reading.finish(cut=False) == []
    assert not reading.is_done
    assert "parser failed" in "".join(capsys.readouterr())


def test_tokens_count_as_reasoning_while_it_goes_on() -> None:
    thought, said = Reasoning("a"), Content("b")
    reading = Reading(Script([], [thought], [], [thought, said], [said], [], [thought], []))
    counts: list[int] = []
    for tokens in (1, 2, 4, 8, 16, 32, 64, 128):
        reading.push("x", tokens)
        counts.append(reading.reasoning_tokens)
    # the opening tag is none, what is held meanwhile and the closing tag are
    assert counts == [0, 2, 6, 14, 14, 14, 78, 206]
    reading.push("", 256)
    assert reading.reasoning_tokens == 206 + 256


def test_parser_that_fails_at_the_end_ends_nothing_else() -> None:
    assert Reading(Script()).finish(cut=True) == []
