"""Calls written as JSON objects with a name and arguments: one, several, or a list of them."""

from refloat.parsing.calls import Calls
from refloat.parsing.partial_json import JsonValue, string_prefix, string_value
from refloat.parsing.source import Source
from refloat.parsing.tags import BLANKS, look, skip_blanks
from refloat.parsing.tools.driver import Outcome

_NAME = "name"
_ARGUMENTS = ("arguments", "parameters")
#: May stand between calls, and between the last one and the closing mark.
_BETWEEN = BLANKS + ",;"
_STRAY = BLANKS + "]}"


class JsonCalls:
    """A `CallReader`."""

    __slots__ = (
        "_close",
        "_early",
        "_key",
        "_listed",
        "_pieces",
        "_state",
        "_value",
    )

    def __init__(self, close: str = "", *, listed: bool = False) -> None:
        """`close`: the mark that ends the calls; a model that leaves it out has ended them too.
        `listed`: a list's bracket was part of the opening."""
        self._close = close
        self._state = "begin"
        self._listed = listed
        self._key = ""
        self._pieces: list[str] = []
        """Of the value that is read as a whole."""
        self._early = ""
        """Arguments that came before the name."""
        self._value = JsonValue()

    def read(self, source: Source, calls: Calls) -> Outcome:
        """See `CallReader`."""
        while True:
            outcome = self._step(source, calls)
            if outcome is not None:
                return outcome
            if calls.is_full:
                return Outcome.DONE

    def cut(self, source: Source, calls: Calls) -> None:
        """See `CallReader`."""
        is_text = self._state == "value" and self._value.kind == '"'
        if calls.is_open and is_text and self._key in _ARGUMENTS:
            calls.arguments(string_prefix(self._raw))

    @property
    def _raw(self) -> str:
        return "".join(self._pieces)

    def _step(self, source: Source, calls: Calls) -> Outcome | None:
        match self._state:
            case "begin":
                return self._begin(source)
            case "key":
                return self._next_key(source, calls)
            case "value":
                return self._next_value(source, calls)
            case "between":
                return self._between(source)
            case "lost":
                return self._lost(source, calls)
            case _:
                return self._broken(source, calls)

    def _begin(self, source: Source) -> Outcome | None:
        at = skip_blanks(source.text, source.at)
        if at == len(source.text):
            return Outcome.REJECT if source.ended else Outcome.MORE
        char = source.text[at]
        if char == "[" and not self._listed:
            self._listed = True
        elif char == "{":
            self._state = "key"
        else:
            return Outcome.REJECT
        source.at = at + 1
        return None

    def _next_key(self, source: Source, calls: Calls) -> Outcome | None:
        """A key and its colon, or the object's end."""
        text = source.text
        at = skip_blanks(text, source.at, BLANKS + ",")
        if at < len(text) and text[at] == "}":
            source.at = at + 1
            return self._end_object(calls)
        key = JsonValue()
        if at < len(text) and text[at] != '"':
            return self._fail(calls)
        end = key.feed(text, at).end
        colon = skip_blanks(text, end)
        if not key.is_done or colon == len(text):
            return self._wait(source, calls)
        if text[colon] != ":":
            return self._fail(calls)
        self._key = string_value(text[at:end]) or ""
        self._value, self._pieces = JsonValue(), []
        self._state = "value"
        source.at = colon + 1
        return None

    def _next_value(self, source: Source, calls: Calls) -> Outcome | None:
        value = self._value
        if not value.kind:
            source.at = skip_blanks(source.text, source.at)
            if source.is_empty:
                return self._wait(source, calls)
        piece = value.feed(source.text, source.at)
        source.at = piece.end
        streams = calls.is_open and self._key in _ARGUMENTS and value.kind in ("{", "[")
        if streams:
            calls.arguments(piece.text)
        else:
            self._pieces.append(piece.text)
        if value.is_broken:
            return self._fail(calls)
        if not value.is_done:
            return self._wait(source, calls)
        self._state = "key"
        return None if streams else self._whole_value(source, calls)

    def _whole_value(self, source: Source, calls: Calls) -> Outcome | None:
        if self._key in _ARGUMENTS:
            if calls.is_open:
                calls.arguments(_arguments_of(self._raw))
            else:
                self._early = self._raw
        elif self._key == _NAME and not calls.is_open:
            name = string_value(self._raw)
            if name is None or not calls.begin(name):
                return Outcome.REJECT
            source.commit()
            if self._early:
                calls.arguments(_arguments_of(self._early))
        return None

    def _end_object(self, calls: Calls) -> Outcome | None:
        if not calls.is_open:
            return Outcome.REJECT
        calls.end()
        self._state = "between"
        self._early = ""
        return None

    def _between(self, source: Source) -> Outcome | None:
        """Behind a call: another one, the closing mark, or nothing of ours."""
        text = source.text
        at = skip_blanks(text, source.at, _BETWEEN)
        if at < len(text) and text[at] == "{":
            source.hold(source.at, at + 1 - source.at)
            source.at = at
            self._state = "begin"
            return None
        closers = skip_blanks(text, at, _STRAY)
        if self._close:
            seen = look(text, closers, (self._close,))
            if seen.tag is not None:
                source.at = closers + len(seen.tag)
                return Outcome.DONE
            if seen.may_come and not source.ended:
                return Outcome.MORE
        elif closers == len(text) and not source.ended:
            return Outcome.MORE
        if self._listed and at < len(text) and text[at] == "]":
            source.at = at + 1
        elif closers == len(text):
            source.at = closers
        return Outcome.DONE

    def _fail(self, calls: Calls) -> Outcome | None:
        """The object is no JSON. Before its name it is text; behind it, arguments as they are."""
        if not calls.is_open:
            return Outcome.REJECT
        self._state = "lost" if self._state == "key" and calls.has_arguments else "broken"
        return None

    def _wait(self, source: Source, calls: Calls) -> Outcome | None:
        """For more text, of which there may be none."""
        if not source.ended:
            return Outcome.MORE
        if not calls.is_open:
            return Outcome.REJECT
        self._value.finish()
        if self._state == "value" and self._key in _ARGUMENTS and not calls.has_arguments:
            calls.arguments(_arguments_of(self._raw))
        calls.end()
        return Outcome.DONE

    def _lost(self, source: Source, calls: Calls) -> Outcome | None:
        """Behind whole arguments something else stands: it is no part of them, nor of the answer."""
        end = source.text.find(self._close, source.at) if self._close else source.at
        if end < 0 and not source.ended:
            source.at = _unfinished(source.text, source.at, self._close)
            return Outcome.MORE
        source.at = end + len(self._close) if end >= 0 else len(source.text)
        calls.end()
        return Outcome.DONE

    def _broken(self, source: Source, calls: Calls) -> Outcome | None:
        """All up to the closing mark belongs to the arguments."""
        text = source.text
        end = text.find(self._close, source.at) if self._close else -1
        if end >= 0:
            calls.arguments(source.take(end))
            source.at = end + len(self._close)
        elif source.ended:
            calls.arguments(source.take(len(text)))
        else:
            calls.arguments(source.take(_unfinished(text, source.at, self._close)))
            return Outcome.MORE
        calls.end()
        return Outcome.DONE


def _arguments_of(raw: str) -> str:
    """Arguments that were read as a whole: JSON inside a string, or null, or what they are."""
    if raw in ("null", ""):
        return ""
    return raw if raw[0] != '"' else string_value(raw) or string_prefix(raw)


def _unfinished(text: str, start: int, close: str) -> int:
    """Up to where the text cannot be the beginning of the closing mark."""
    for at in range(max(start, len(text) - len(close) + 1), len(text)):
        if close.startswith(text[at:]):
            return at
    return len(text)
