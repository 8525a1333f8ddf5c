"""Calls whose parameters stand between tags, as bare text; their JSON is made here, by the schema.

A closing tag ends a value only where what follows it can follow a value: so one that is part of the
text stays part of it. A value whose closing tag is missing ends where the next parameter begins.
"""

from collections.abc import Callable
from typing import NamedTuple

from refloat.parsing.calls import Calls
from refloat.parsing.declared import TEXT_ONLY, typed_json
from refloat.parsing.partial_json import escaped, quoted
from refloat.parsing.source import Source
from refloat.parsing.tags import TagFinder, look, skip_blanks
from refloat.parsing.tools.driver import Outcome
from refloat.parsing.tools.named_json import Header, Verdict

_MOST_KEY_CHARS = 256
_CDATA, _CDATA_END = "<![CDATA[", "]]>"


class TaggedFormat(NamedTuple):
    """The tags of one family."""

    header: Callable[[str, int], Header | Verdict]
    """From behind the opening to the place where parameters begin."""
    key_open: str
    key_close: str
    value_open: str
    """Behind the key's closing, if a value has an opening of its own."""
    value_close: str
    call_close: str
    call_open: str
    """What another call begins with."""
    wrapper_close: str = ""
    """Behind the call, if it is wrapped."""
    pad: str = ""
    """Stands before and behind a value, and is no part of it."""
    cdata: bool = False


class TaggedCalls:
    """A `CallReader` of one call."""

    __slots__ = (
        "_finder",
        "_format",
        "_has_value",
        "_key",
        "_name",
        "_pad",
        "_scanned",
        "_seen",
        "_state",
        "_types",
    )

    def __init__(self, form: TaggedFormat) -> None:
        self._format = form
        self._finder = TagFinder((form.value_close, form.key_open, form.call_close))
        self._state = "header"
        self._name = ""
        self._key = ""
        self._types: frozenset[str] = frozenset()
        self._seen: list[str] = []
        """Parameters so far."""
        self._has_value = False
        """Part of the present value, a string, has gone out."""
        self._pad = ""
        """Stood before the present value and is expected behind it."""
        self._scanned = 0
        """Characters from the source's place on in which no tag begins."""

    def read(self, source: Source, calls: Calls) -> Outcome:
        """See `CallReader`."""
        while True:
            match self._state:
                case "header":
                    outcome = self._header(source, calls)
                case "key":
                    outcome = self._next_key(source, calls)
                case "open":
                    outcome = self._open_value(source, calls)
                case "value":
                    outcome = self._next_value(source, calls)
                case _:
                    outcome = self._close(source)
            if outcome is not None:
                return outcome
            if calls.is_full:
                return Outcome.DONE

    def cut(self, source: Source, calls: Calls) -> None:
        """See `CallReader`. A value that is no string and not whole has not gone out."""

    def _header(self, source: Source, calls: Calls) -> Outcome | None:
        header = self._format.header(source.text, source.at)
        if header is Verdict.MORE and not source.ended:
            return Outcome.MORE
        if isinstance(header, Verdict) or not calls.begin(header.name):
            return Outcome.REJECT
        self._name = calls.tools.resolve(header.name) or ""
        source.commit()
        source.at = header.end
        self._state = "key"
        return None

    def _next_key(self, source: Source, calls: Calls) -> Outcome | None:
        form, text = self._format, source.text
        at = skip_blanks(text, source.at)
        seen = look(text, at, (form.key_open, form.call_close, form.value_close))
        if seen.may_come and not source.ended:
            return Outcome.MORE
        if seen.tag is None:
            return self._end(calls)
        if seen.tag == form.value_close:
            source.at = at + len(seen.tag)
            return None
        if seen.tag == form.call_close:
            source.at = at + len(seen.tag)
            return self._end(calls)
        start = at + len(seen.tag)
        end = text.find(form.key_close, start, start + _MOST_KEY_CHARS)
        if end < 0:
            if not source.ended and len(text) - start < _MOST_KEY_CHARS:
                return Outcome.MORE
            return self._end(calls)
        self._key = text[start:end].strip()
        source.at = end + len(form.key_close)
        self._types = calls.tools.types_of(self._name, self._key)
        self._state = "open"
        return None

    def _open_value(self, source: Source, calls: Calls) -> Outcome | None:
        """Up to the value's first character."""
        form, text = self._format, source.text
        at = source.at
        if form.value_open:
            at = skip_blanks(text, at)
            seen = look(text, at, (form.value_open,))
            if seen.may_come and not source.ended:
                return Outcome.MORE
            at += len(seen.tag or "")
        self._pad = ""
        if form.pad:
            seen = look(text, at, (form.pad,))
            if seen.may_come and not source.ended:
                return Outcome.MORE
            self._pad = seen.tag or ""
            at += len(self._pad)
        source.at = at
        self._has_value = False
        self._scanned = 0
        self._state = "value"
        return None

    def _next_value(self, source: Source, calls: Calls) -> Outcome | None:
        form, text = self._format, source.text
        if form.cdata and not self._has_value:
            seen = look(text, source.at, (_CDATA,))
            if seen.may_come and not source.ended:
                return Outcome.MORE
            if seen.tag is not None:
                return self._cdata(source, calls, source.at + len(seen.tag))
        end, certain = self._value_end(source, calls)
        if end is None and not source.ended:
            self._stream(source, calls, _without_pad(text, source.at, certain, self._pad))
            self._scanned = certain - source.at
            return Outcome.MORE
        close = len(text) if end is None else end
        self._whole(source, calls, _without_pad(text, source.at, close, self._pad))
        source.at = close
        self._state = "key"
        return None

    def _cdata(self, source: Source, calls: Calls, start: int) -> Outcome | None:
        """A value that is marked as text. It is not streamed: models wrap small things as well."""
        form, text = self._format, source.text
        at = start
        while (at := text.find(_CDATA_END, at)) >= 0:
            seen = look(text, skip_blanks(text, at + len(_CDATA_END)), (form.value_close,))
            if seen.tag is not None:
                break
            if seen.may_come and not source.ended:
                return Outcome.MORE
            at += 1
        if at < 0 and not source.ended:
            return Outcome.MORE
        source.at = start
        self._whole(source, calls, at if at >= 0 else len(text))
        source.at += len(_CDATA_END) if at >= 0 else 0
        self._state = "key"
        return None

    def _value_end(self, source: Source, calls: Calls) -> tuple[int | None, int]:
        """Where the present value ends, if that is known; and up to where all is part of it."""
        text, at = source.text, source.at + self._scanned
        while (found := self._finder.find(text, at)) is not None:
            verdict = self._ends_value(source, calls, found.tag, found.end)
            if verdict is True:
                return found.start, found.start
            if verdict is None and not source.ended:
                return None, found.start
            at = found.start + 1
        return None, self._finder.safe_end(text, at)

    def _ends_value(self, source: Source, calls: Calls, tag: str, behind: int) -> bool | None:
        """Whether a tag inside a value ends it; `None`: what follows has to be seen first."""
        form, text = self._format, source.text
        if tag == form.key_open:
            end = text.find(form.key_close, behind, behind + _MOST_KEY_CHARS)
            if end < 0:
                return False if len(text) - behind >= _MOST_KEY_CHARS else None
            return self._is_next(calls, text[behind:end].strip())
        if tag == form.value_close:
            follow = (form.key_open, form.call_close, *self._wrapper())
        else:
            follow = self._wrapper() or (form.call_open,)
        at = skip_blanks(text, behind)
        if at == len(text):
            return True if source.ended else None
        seen = look(text, at, follow)
        if seen.tag is not None:
            return True
        return None if seen.may_come else False

    def _wrapper(self) -> tuple[str, ...]:
        return (self._format.wrapper_close,) if self._format.wrapper_close else ()

    def _is_next(self, calls: Calls, key: str) -> bool:
        """Whether this can be a parameter of which nothing came yet."""
        if not key or key == self._key or key in self._seen:
            return False
        is_declared = calls.tools.has_parameter(self._name, key)
        return key.isidentifier() if is_declared is None else is_declared

    def _lead(self) -> str:
        """What the JSON has before the present value."""
        return ("{" if not self._seen else ", ") + quoted(self._key) + ": "

    def _stream(self, source: Source, calls: Calls, end: int) -> None:
        """Give out the part of a string that is certain."""
        if self._types != TEXT_ONLY or end <= source.at:
            return
        lead = "" if self._has_value else self._lead() + '"'
        self._has_value = True
        calls.arguments(lead + escaped(source.take(end)))

    def _whole(self, source: Source, calls: Calls, end: int) -> None:
        """Give out the (rest of the) value."""
        text = source.take(end)
        if self._has_value:
            calls.arguments(escaped(text) + '"')
        else:
            calls.arguments(self._lead() + typed_json(text, self._types))
        self._seen.append(self._key)
        self._has_value = False

    def _end(self, calls: Calls) -> Outcome | None:
        calls.arguments("}" if self._seen else "{}")
        calls.end()
        self._state = "close"
        return None

    def _close(self, source: Source) -> Outcome | None:
        wrapper = self._wrapper()
        at = skip_blanks(source.text, source.at)
        seen = look(source.text, at, wrapper)
        if seen.tag is not None:
            source.at = at + len(seen.tag)
        elif seen.may_come and not source.ended:
            return Outcome.MORE
        return Outcome.DONE


def _without_pad(text: str, start: int, end: int, pad: str) -> int:
    """`end`, but before a pad that the text up to there ends with."""
    before = end - len(pad)
    return before if before >= start and text.startswith(pad, before) else end
