"""Escapes and classes of characters as regular expressions and EBNF write them."""

import re

from refloat.grammar.errors import GrammarError
from refloat.grammar.nodes import CharClass, all_but, char_class

_BLANK = (
    *((0x09, 0x0D), (0x20, 0x20)),
    *((0xA0, 0xA0), (0x1680, 0x1680), (0x2000, 0x200A), (0x2028, 0x2029)),
    *((0x202F, 0x202F), (0x205F, 0x205F), (0x3000, 0x3000), (0xFEFF, 0xFEFF)),
)
_DIGITS = ((0x30, 0x39),)
_WORD = (*_DIGITS, (0x41, 0x5A), (0x5F, 0x5F), (0x61, 0x7A))
CLASSES = {
    "d": char_class(_DIGITS),
    "D": all_but(_DIGITS),
    "w": char_class(_WORD),
    "W": all_but(_WORD),
    "s": char_class(_BLANK),
    "S": all_but(_BLANK),
}
"""By the letter behind the backslash."""

_LETTERS = {
    "n": "\n",
    "r": "\r",
    "t": "\t",
    "f": "\f",
    "v": "\v",
    "0": "\0",
    "a": "\a",
    "e": "\x1b",
}
_CODE = re.compile(r"x([0-9A-Fa-f]{2})|u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|u\{([0-9A-Fa-f]{1,6})\}")
_LAST = 0x10FFFF


def escaped_char(text: str, at: int) -> tuple[str, int]:
    """The character that an escape stands for, and the place behind it; `at`: behind the backslash."""
    if at == len(text):
        raise GrammarError("a backslash at the end")
    code = _CODE.match(text, at)
    if code is not None:
        number = int(next(group for group in code.groups() if group is not None), 16)
        if number > _LAST or 0xD800 <= number < 0xE000:
            raise GrammarError(f"no character has the number {number:x}, at character {at}")
        return chr(number), code.end()
    char = text[at]
    if char in _LETTERS:
        return _LETTERS[char], at + 1
    if char.isalnum():
        raise GrammarError(f"the escape \\{char} is not supported, at character {at}")
    return char, at + 1


class ClassReader:
    """Reads one class in brackets."""

    def __init__(self, text: str, at: int) -> None:
        """`at`: behind the opening bracket."""
        self._text = text
        self._at = at
        self._begin = at

    def read(self) -> tuple[CharClass, int]:
        """The class, and the place behind its closing bracket. Raises `GrammarError`."""
        is_negated = self._text.startswith("^", self._at)
        self._at += is_negated
        ranges: list[tuple[int, int]] = []
        while (char := self._text[self._at : self._at + 1]) != "]":
            if not char:
                raise GrammarError(f"a [ without its ], at character {self._begin}")
            ranges += self._member()
        node = all_but(ranges) if is_negated else char_class(ranges)
        if not node.ranges:
            raise GrammarError(f"a class of no characters, at character {self._begin}")
        return node, self._at + 1

    def _member(self) -> tuple[tuple[int, int], ...]:
        kind = self._text[self._at : self._at + 2]
        if kind[0] == "\\" and kind[1:] in CLASSES and kind[1:]:
            self._at += 2
            return CLASSES[kind[1]].ranges
        first = self._char()
        is_range = self._text.startswith("-", self._at) and self._at + 1 < len(self._text)
        if not is_range or self._text[self._at + 1] == "]":
            return ((first, first),)
        self._at += 1
        if self._text[self._at] == "\\" and self._text[self._at + 1 : self._at + 2] in CLASSES:
            return ((first, first), (0x2D, 0x2D))
        last = self._char()
        if last < first:
            raise GrammarError(f"a range in the wrong order, at character {self._at}")
        return ((first, last),)

    def _char(self) -> int:
        char = self._text[self._at]
        if char == "\\":
            if self._text.startswith("b", self._at + 1):
                self._at += 2
                return 0x08
            char, self._at = escaped_char(self._text, self._at + 1)
        else:
            self._at += 1
        return ord(char)
