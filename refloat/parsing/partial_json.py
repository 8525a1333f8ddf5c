"""One JSON value in text that arrives in pieces: where it ends, and its strings made sound.

Only the structure is followed (strings, escapes, brackets): whether a number is one is not asked.
"""

import json
import re
from typing import NamedTuple

_STRING_RUN = re.compile(r'[^"\\\x00-\x1f]+')
_PLAIN_RUN = re.compile(r'[^"{}\[\]]+')
_SCALAR_RUN = re.compile(r'[^\s,}\]{\[":]+')
_HALF_PAIR = re.compile("[\ud800-\udfff]")
_ESCAPES = {"\n": "\\n", "\r": "\\r", "\t": "\\t", "\b": "\\b", "\f": "\\f"}
_CLOSER = {"{": "}", "[": "]"}


class Piece(NamedTuple):
    """What of a text belongs to the value."""

    text: str
    """With raw control characters inside strings escaped, as JSON demands."""
    end: int
    """Place in the text behind it."""


class JsonValue:
    """Follows one value. `is_done` once it is whole, `is_broken` if its brackets do not match."""

    __slots__ = ("_closers", "_escaped", "_in_string", "_kind", "is_broken", "is_done")

    def __init__(self) -> None:
        self._kind = ""
        """`{`, `[`, `"` or `x` (a scalar); empty until the first character came."""
        self._closers: list[str] = []
        self._in_string = False
        self._escaped = False
        self.is_done = False
        self.is_broken = False

    @property
    def kind(self) -> str:
        """`{`, `[`, `"`, `x` for another scalar, or empty: nothing came yet."""
        return self._kind

    def feed(self, text: str, start: int) -> Piece:
        """Take the text from `start` on, which is not blank if nothing came before."""
        at, out = start, list[str]()
        while at < len(text) and not (self.is_done or self.is_broken):
            if self._in_string:
                at = self._string(text, at, out)
            elif not self._kind or self._closers:
                at = self._structure(text, at, out)
            else:
                at = self._scalar(text, at, out)
        return Piece("".join(out), at)

    def finish(self) -> None:
        """No more text comes: a number or a word is whole by that."""
        if self._kind == "x":
            self.is_done = True

    def _string(self, text: str, at: int, out: list[str]) -> int:
        if self._escaped:
            self._escaped = False
            out.append(_sound_escape(text[at]))
            return at + 1
        run = _STRING_RUN.match(text, at)
        if run is not None:
            out.append(run[0])
            return run.end()
        char = text[at]
        if char == "\\":
            self._escaped = True
            return at + 1
        if char == '"':
            self._in_string = False
            self.is_done = not self._closers
        else:
            char = _ESCAPES.get(char, f"\\u{ord(char):04x}")
        out.append(char)
        return at + 1

    def _structure(self, text: str, at: int, out: list[str]) -> int:
        char = text[at]
        if char == '"':
            self._in_string = True
            self._kind = self._kind or char
        elif char in _CLOSER:
            self._closers.append(_CLOSER[char])
            self._kind = self._kind or char
        elif not self._kind:
            self._kind = "x"
            return self._scalar(text, at, out)
        elif char in "}]":
            if char != self._closers[-1]:
                self.is_broken = True
                return at
            self._closers.pop()
            self.is_done = not self._closers
        else:
            run = _PLAIN_RUN.match(text, at)
            assert run is not None
            out.append(run[0])
            return run.end()
        out.append(char)
        return at + 1

    def _scalar(self, text: str, at: int, out: list[str]) -> int:
        run = _SCALAR_RUN.match(text, at)
        if run is not None:
            out.append(run[0])
            at = run.end()
        if at < len(text):
            self.is_done = True
        return at


def _sound_escape(char: str) -> str:
    """What a backslash and this character mean in JSON, or were meant to."""
    if char in '"\\/bfnrtu':
        return "\\" + char
    if char == "'":
        return char
    return _ESCAPES.get(char, "\\\\" + (char if char >= " " else f"\\u{ord(char):04x}"))


def string_value(raw: str) -> str | None:
    """The text of a whole JSON string; `None` if it is none. Half a pair of surrogates, which no
    answer could carry, becomes U+FFFD."""
    value = _decoded(raw)
    return None if value is None else _HALF_PAIR.sub("\ufffd", value)


def _decoded(raw: str) -> str | None:
    try:
        value: object = json.loads(raw)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, str) else None


def string_prefix(raw: str) -> str:
    """The text of a JSON string that was cut somewhere, without what was cut in two."""
    for length in range(len(raw), max(0, len(raw) - 12), -1):
        value = _decoded(raw[:length] + '"')
        if value is not None and not _HALF_PAIR.match(value[-1:]):
            return _HALF_PAIR.sub("\ufffd", value)
    return ""


def quoted(text: str) -> str:
    """A JSON string."""
    return json.dumps(text, ensure_ascii=False)


def escaped(text: str) -> str:
    """The inside of a JSON string."""
    return quoted(text)[1:-1]
