"""Calls written as Python or nearly so: `name(key=value, ...)` in a list, or `name{key:value, ...}`."""

import re
from typing import NamedTuple

from refloat.parsing.calls import Calls
from refloat.parsing.partial_json import quoted
from refloat.parsing.source import Source
from refloat.parsing.tags import BLANKS, look, skip_blanks
from refloat.parsing.tools.driver import Outcome
from refloat.parsing.tools.literals import PYTHON, LiteralValue, Writing

_NAME = re.compile(r"[\w.\-/]+")
_MOST_NAME_CHARS = 256


class PythonicFormat(NamedTuple):
    """How one family writes."""

    close: str = ""
    """The mark behind all calls."""
    prefix: str = ""
    """Before each name."""
    opens: str = "("
    closes: str = ")"
    assigns: str = "="
    """Between key and value."""
    listed: bool = True
    """Calls stand in brackets, of which there may be none for a single one."""
    writing: Writing = PYTHON


class PythonicCalls:
    """A `CallReader`."""

    __slots__ = ("_form", "_has_keys", "_is_listed", "_state", "_value")

    def __init__(self, form: PythonicFormat) -> None:
        self._form = form
        self._state = "begin"
        self._is_listed = False
        self._has_keys = False
        self._value = LiteralValue(form.writing)

    def read(self, source: Source, calls: Calls) -> Outcome:
        """See `CallReader`."""
        while True:
            match self._state:
                case "begin":
                    outcome = self._begin(source)
                case "name":
                    outcome = self._name(source, calls)
                case "key":
                    outcome = self._key(source, calls)
                case "value":
                    outcome = self._next_value(source, calls)
                case _:
                    outcome = self._between(source)
            if outcome is not None:
                return outcome
            if calls.is_full:
                return Outcome.DONE

    def cut(self, source: Source, calls: Calls) -> None:
        """See `CallReader`. What came of a value went out when it came, but for half a word."""

    def _begin(self, source: Source) -> Outcome | None:
        at = skip_blanks(source.text, source.at)
        if at == len(source.text):
            return Outcome.REJECT if source.ended else Outcome.MORE
        if self._form.listed and source.text[at] == "[":
            self._is_listed = True
            at += 1
        source.at = at
        self._state = "name"
        return None

    def _name(self, source: Source, calls: Calls) -> Outcome | None:
        """A name and what opens its arguments."""
        form, text = self._form, source.text
        at = skip_blanks(text, source.at)
        if form.prefix:
            seen = look(text, at, (form.prefix,))
            if seen.tag is None:
                return Outcome.MORE if seen.may_come and not source.ended else Outcome.REJECT
            at += len(seen.tag)
        run = _NAME.match(text, at, at + _MOST_NAME_CHARS)
        end = at if run is None else run.end()
        if end == len(text) and not source.ended:
            return Outcome.MORE
        name = text[at:end]
        if not text.startswith(form.opens, end) or not calls.begin(name):
            return Outcome.REJECT
        source.commit()
        source.at = end + 1
        self._has_keys = False
        self._state = "key"
        return None

    def _key(self, source: Source, calls: Calls) -> Outcome | None:
        """A key and what assigns to it, or the end of the arguments."""
        form, text = self._form, source.text
        at = skip_blanks(text, source.at, BLANKS + ",")
        if text.startswith(form.closes, at):
            source.at = at + 1
            calls.arguments("}" if self._has_keys else "{}")
            calls.end()
            self._state = "between"
            return None
        key, end = _key_at(text, at, form)
        sign = skip_blanks(text, end)
        if sign >= len(text) and not source.ended:
            return Outcome.MORE
        if not key or not text.startswith(form.assigns, sign):
            return self._give_up(calls)
        calls.arguments((", " if self._has_keys else "{") + quoted(key) + ": ")
        self._has_keys = True
        source.at = sign + 1
        self._value = LiteralValue(form.writing)
        self._state = "value"
        return None

    def _next_value(self, source: Source, calls: Calls) -> Outcome | None:
        text, source.at = self._value.feed(source.text, source.at, ended=source.ended)
        calls.arguments(text)
        if self._value.is_broken:
            return self._give_up(calls)
        if self._value.is_done:
            self._state = "key"
            return None
        return self._give_up(calls) if source.ended else Outcome.MORE

    def _give_up(self, calls: Calls) -> Outcome:
        """What follows is no argument: the call ends with what it has, the rest is text."""
        calls.end()
        return Outcome.DONE

    def _between(self, source: Source) -> Outcome | None:
        """Behind a call: another one, the bracket and the closing mark, or nothing of ours."""
        form, text = self._form, source.text
        at = skip_blanks(text, source.at, BLANKS + ",")
        if self._is_listed and text.startswith("]", at):
            self._is_listed = False
            source.at = at + 1
            return None
        if at == len(text) and not source.ended and (self._is_listed or form.close):
            return Outcome.MORE
        seen = look(text, at, (form.close,) if form.close else ())
        if seen.tag is not None:
            source.at = at + len(seen.tag)
            return Outcome.DONE
        if seen.may_come and not source.ended:
            return Outcome.MORE
        if self._is_listed and at < len(text):
            source.hold(source.at, at + 1 - source.at)
            source.at = at
            self._state = "name"
            return None
        return Outcome.DONE


def _key_at(text: str, at: int, form: PythonicFormat) -> tuple[str, int]:
    """A bare key, or one in quotes; empty if there is none or not the whole of it."""
    quote, may_come = look(text, at, form.writing.quotes)
    if quote is None and may_come:
        return "", len(text)
    if quote is None:
        run = _NAME.match(text, at)
        return ("", at) if run is None else (run[0], run.end())
    end = text.find(quote, at + len(quote))
    return ("", len(text)) if end < 0 else (text[at + len(quote) : end], end + len(quote))
