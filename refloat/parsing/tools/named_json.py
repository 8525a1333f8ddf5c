"""Calls written as a name between marks and a JSON value behind it."""

from collections.abc import Callable
from enum import Enum
from typing import NamedTuple

from refloat.parsing.calls import Calls
from refloat.parsing.partial_json import JsonValue
from refloat.parsing.source import Source
from refloat.parsing.tags import BLANKS, look, skip_blanks
from refloat.parsing.tools.driver import Outcome


class Verdict(Enum):
    """On a header that is not whole."""

    MORE = "more"
    NO = "no"


class Header(NamedTuple):
    """What stands before the arguments."""

    name: str
    end: int


class NamedFormat(NamedTuple):
    """The marks of one family."""

    header: Callable[[str, int], Header | Verdict]
    """Read a header that begins at a place; reads the same whatever follows it."""
    opens: str
    """The mark before each call."""
    closes: tuple[str, ...] = ()
    """Marks behind a call; a model may leave them out."""
    section: str = ""
    """The mark before the first call, if calls stand in a section of their own."""
    section_end: str = ""
    chars: str = ""
    """Beside blanks, may stand between arguments and closing mark."""


class NamedCalls:
    """A `CallReader`: all calls that follow one another."""

    __slots__ = ("_format", "_state", "_value")

    def __init__(self, form: NamedFormat, opening: str) -> None:
        self._format = form
        self._state = "section" if form.section and opening == form.section else "header"
        self._value = JsonValue()

    def read(self, source: Source, calls: Calls) -> Outcome:
        """See `CallReader`."""
        while True:
            match self._state:
                case "section":
                    outcome = self._section(source, calls)
                case "header":
                    outcome = self._header(source, calls)
                case "value":
                    outcome = self._arguments(source, calls)
                case "broken":
                    outcome = self._broken(source, calls)
                case _:
                    outcome = self._close(source)
            if outcome is not None:
                return outcome
            if calls.is_full:
                return Outcome.DONE

    def cut(self, source: Source, calls: Calls) -> None:
        """See `CallReader`. What came of the arguments went out when it came."""

    def _section(self, source: Source, calls: Calls) -> Outcome | None:
        """Between the section's mark, its calls and its end."""
        form, text = self._format, source.text
        at = skip_blanks(text, source.at)
        ends = (form.section_end,) if form.section_end and calls.any else ()
        seen = look(text, at, (form.opens, *ends))
        if seen.tag is not None:
            if source.mark is None and seen.tag == form.opens:
                source.hold(source.at, at + len(seen.tag) - source.at)
            source.at = at + len(seen.tag)
            if seen.tag != form.opens:
                return Outcome.DONE
            self._state = "header"
            return None
        if seen.may_come and not source.ended:
            return Outcome.MORE
        return Outcome.DONE if source.mark is None else Outcome.REJECT

    def _header(self, source: Source, calls: Calls) -> Outcome | None:
        header = self._format.header(source.text, source.at)
        if header is Verdict.MORE and not source.ended:
            return Outcome.MORE
        if isinstance(header, Verdict) or not calls.begin(header.name):
            return Outcome.REJECT
        source.commit()
        source.at = header.end
        self._value = JsonValue()
        self._state = "value"
        return None

    def _arguments(self, source: Source, calls: Calls) -> Outcome | None:
        value = self._value
        if not value.kind:
            source.at = skip_blanks(source.text, source.at)
            if source.is_empty:
                return self._wait(source, calls)
            if source.text[source.at] not in '{["':
                self._state = "broken"
                return None
        piece = value.feed(source.text, source.at)
        source.at = piece.end
        calls.arguments(piece.text)
        if value.is_broken:
            self._state = "broken"
        elif value.is_done:
            calls.end()
            self._state = "close"
        else:
            return self._wait(source, calls)
        return None

    def _wait(self, source: Source, calls: Calls) -> Outcome:
        if not source.ended:
            return Outcome.MORE
        calls.end()
        return Outcome.DONE

    def _broken(self, source: Source, calls: Calls) -> Outcome | None:
        """Arguments that are no JSON: all up to a mark."""
        form, text = self._format, source.text
        tags = (*form.closes, *(tag for tag in (form.opens, form.section_end) if tag))
        for at in range(source.at, len(text)):
            seen = look(text, at, tags)
            if seen.tag is not None or (seen.may_come and not source.ended):
                calls.arguments(source.take(at))
                if seen.tag is None:
                    return Outcome.MORE
                calls.end()
                self._state = "close"
                return None
        calls.arguments(source.take(len(text)))
        return self._wait(source, calls)

    def _close(self, source: Source) -> Outcome | None:
        """The mark behind a call, if it is there."""
        form, text = self._format, source.text
        at = skip_blanks(text, source.at, BLANKS + form.chars)
        seen = look(text, at, form.closes)
        if seen.tag is not None:
            source.at = at + len(seen.tag)
        elif form.closes and seen.may_come:
            if not source.ended:
                return Outcome.MORE
            source.at = len(text)
        if not form.section:
            return Outcome.DONE
        self._state = "section"
        return None


def name_until(text: str, start: int, ends: tuple[str, ...], most: int = 256) -> Header | Verdict:
    """A name up to one of several marks, of which the nearest counts."""
    found = [
        (at, end) for end in ends if (at := text.find(end, start, start + most + len(end))) >= 0
    ]
    if not found:
        is_long = len(text) - start > most + max(map(len, ends))
        return Verdict.NO if is_long else Verdict.MORE
    at, end = min(found)
    name = text[start:at].strip()
    if not name or any(char.isspace() for char in name):
        return Verdict.NO
    return Header(name, at + len(end))
