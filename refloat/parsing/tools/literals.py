"""Values as Python or Gemma write them, made into JSON while they arrive. Pure, one value at a time."""

import re
from functools import cache
from typing import NamedTuple

from refloat.parsing.partial_json import escaped, quoted
from refloat.parsing.tags import BLANKS, look

_WORD_RUN = re.compile(r"""[^\s,:=()\[\]{}"'<]+""")
_WORDS = {
    **{"True": "true", "False": "false", "None": "null"},
    **{"true": "true", "false": "false", "null": "null"},
}
_NUMBER = re.compile(r"-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?")
_OPENERS = {"{": "}", "[": "]", "(": ")"}
_AS_JSON = {"(": "[", ")": "]"}
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "a": "\a", "v": "\v", "0": "\0"}
_HEX_DIGITS = {"x": 2, "u": 4, "U": 8}
_LARGEST_CHAR = 0x10FFFF


class Writing(NamedTuple):
    """How a family writes strings."""

    quotes: tuple[str, ...] = ('"', "'")
    escapes: bool = True
    """A backslash means something."""


PYTHON = Writing()


class LiteralValue:
    """Reads one value. `is_done` once it is whole; `is_broken` where it is no value."""

    __slots__ = ("_closers", "_quote", "_writing", "is_broken", "is_done")

    def __init__(self, writing: Writing = PYTHON) -> None:
        self._writing = writing
        self._closers: list[str] = []
        self._quote = ""
        self.is_done = False
        self.is_broken = False

    def feed(self, text: str, start: int, *, ended: bool) -> tuple[str, int]:
        """Take the text from `start` on. JSON text, and the place up to which all was used; what
        is left has to come again with more behind it. `ended`: there is no more."""
        at, out = start, list[str]()
        while at < len(text) and not (self.is_done or self.is_broken):
            was = at
            at = (self._string if self._quote else self._structure)(text, at, out, ended)
            if at == was and not (self.is_done or self.is_broken):
                break
        return "".join(out), at

    def _string(self, text: str, at: int, out: list[str], ended: bool) -> int:
        """Plain characters, one escape, or the end of a string."""
        quote = self._quote
        escapes = self._writing.escapes
        if escapes and text[at] == "\\":
            return self._escape(text, at, out, ended)
        run = _plain_run(quote[0], escapes).match(text, at)
        end = at if run is None else run.end()
        if end == at:
            if text.startswith(quote, at):
                self._quote = ""
                out.append('"')
                self._value_ended()
                return at + len(quote)
            if quote.startswith(text[at:]) and not ended:
                return at
            end = at + 1
        out.append(escaped(text[at:end]))
        return end

    def _escape(self, text: str, at: int, out: list[str], ended: bool) -> int:
        if at + 1 == len(text):
            if not ended:
                return at
            out.append("\\\\")
            return at + 1
        char = text[at + 1]
        digits = _HEX_DIGITS.get(char, 0)
        code = text[at + 2 : at + 2 + digits]
        if digits and re.fullmatch("[0-9a-fA-F]*", code):
            if len(code) < digits and at + 2 + len(code) == len(text) and not ended:
                return at
            if len(code) == digits and int(code, 16) <= _LARGEST_CHAR:
                out.append(_as_json(int(code, 16)))
                return at + 2 + digits
        if char in _ESCAPES:
            out.append(escaped(_ESCAPES[char]))
        elif char in "\\'\"":
            out.append(escaped(char))
        elif char != "\n":
            out.append(escaped("\\" + char))
        return at + 2

    def _structure(self, text: str, at: int, out: list[str], ended: bool) -> int:
        char = text[at]
        if char in BLANKS:
            return at + 1
        seen = look(text, at, self._writing.quotes)
        if seen.tag is not None:
            self._quote = seen.tag
            out.append('"')
            return at + len(seen.tag)
        if seen.may_come and not ended:
            return at
        if char in _OPENERS:
            self._closers.append(_OPENERS[char])
            out.append(_AS_JSON.get(char, char))
            return at + 1
        if self._closers and char in ",:}])":
            return self._punctuation(text, at, out, ended)
        return self._word(text, at, out, ended)

    def _punctuation(self, text: str, at: int, out: list[str], ended: bool) -> int:
        char = text[at]
        if char in "}])":
            if char != self._closers[-1]:
                self.is_broken = True
                return at
            self._closers.pop()
            out.append(_AS_JSON.get(char, char))
            self._value_ended()
            return at + 1
        # A comma right before a bracket, as Python allows it, is none in JSON.
        behind = at + 1
        while behind < len(text) and text[behind] in BLANKS:
            behind += 1
        if char == "," and behind == len(text) and not ended:
            return at
        if char != "," or behind == len(text) or text[behind] not in "}])":
            out.append(": " if char == ":" else ", ")
        return behind

    def _word(self, text: str, at: int, out: list[str], ended: bool) -> int:
        """A number, a known word, or a bare word, which stands for a string."""
        run = _WORD_RUN.match(text, at)
        end = run.end() if run is not None else at
        if end == len(text) and not ended:
            return at
        if end == at:
            self.is_broken = True
            return at
        word = text[at:end]
        is_key = self._closers[-1:] == ["}"] and text.startswith(":", end)
        if is_key or (word not in _WORDS and not _NUMBER.fullmatch(word)):
            out.append(quoted(word))
        else:
            out.append(_WORDS.get(word, word))
        self._value_ended()
        return end

    def _value_ended(self) -> None:
        self.is_done = not self._closers


@cache
def _plain_run(quote: str, escapes: bool) -> re.Pattern[str]:
    return re.compile(f"[^{re.escape(quote)}{re.escape(chr(92)) if escapes else ''}]+")


def _as_json(code: int) -> str:
    # JSON can carry half a pair as an escape, and only so.
    return f"\\u{code:04x}" if 0xD800 <= code < 0xE000 else escaped(chr(code))
