"""Reads regular expressions as ECMAScript and Python write them, as far as grammars go."""

import re
from collections.abc import Iterable

from refloat.grammar.char_escapes import CLASSES, ClassReader, escaped_char
from refloat.grammar.errors import GrammarError
from refloat.grammar.nodes import (
    Literal,
    Node,
    Reference,
    all_but,
    choice,
    repeat,
    sequence,
)
from refloat.grammar.pruning import references

BEGIN, END = Reference("^"), Reference("$")
"""Anchors, as nodes that no grammar may keep."""
_MOST_DEPTH = 50
_MOST_CHARS = 8192
_COUNTS = re.compile(r"\{(\d{1,6})(?:(,)(\d{0,6}))?\}")
_NAMED = re.compile(r"\?P?<[A-Za-z_]\w*>")
_DOT = all_but(((0x0A, 0x0A), (0x0D, 0x0D), (0x2028, 0x2029)))
_SIMPLE = {"*": (0, None), "+": (1, None), "?": (0, 1)}


def anchors_in(node: Node) -> bool:
    """Whether an anchor is left somewhere in a node."""
    return any(name in (BEGIN.name, END.name) for name in references(node))


class RegexParser:
    """One pattern."""

    def __init__(self, pattern: str) -> None:
        if len(pattern) > _MOST_CHARS:
            raise GrammarError(f"a pattern of more than {_MOST_CHARS} characters")
        self._text = pattern
        self._at = 0
        self._depth = 0

    def alternatives(self) -> list[list[Node]]:
        """What stands between the outermost bars. Raises `GrammarError`."""
        found = self._alternatives()
        if self._at < len(self._text):
            raise self._error("a ) too many")
        return found

    @staticmethod
    def joined(parts: Iterable[Node]) -> Node:
        """Parts one behind another."""
        return sequence(*parts)

    def _alternatives(self) -> list[list[Node]]:
        found: list[list[Node]] = [[]]
        while self._at < len(self._text) and self._text[self._at] != ")":
            if self._text[self._at] == "|":
                self._at += 1
                found.append([])
            else:
                found[-1].append(self._quantified())
        return found

    def _quantified(self) -> Node:
        node = self._atom()
        while (counts := self._counts()) is not None:
            if node in (BEGIN, END):
                raise self._error("an anchor cannot be repeated")
            node = repeat(node, *counts)
        return node

    def _counts(self) -> tuple[int, int | None] | None:
        char = self._text[self._at : self._at + 1]
        if char in _SIMPLE and char:
            counts = _SIMPLE[char]
            self._at += 1
        else:
            found = _COUNTS.match(self._text, self._at)
            if found is None:
                return None
            self._at = found.end()
            least = int(found[1])
            most = None if found[2] and not found[3] else int(found[3] or found[1])
            if most is not None and most < least:
                raise self._error("counts in the wrong order")
            counts = (least, most)
        if self._text.startswith("+", self._at):
            raise self._error("possessive quantifiers are not supported")
        if self._text.startswith("?", self._at):
            self._at += 1  # lazy: the same texts
        return counts

    def _atom(self) -> Node:
        char = self._text[self._at]
        self._at += 1
        match char:
            case "(":
                return self._group()
            case "[":
                reader = ClassReader(self._text, self._at)
                node, self._at = reader.read()
                return node
            case ".":
                return _DOT
            case "^":
                return BEGIN
            case "$":
                return END
            case "\\":
                return self._escape()
            case "*" | "+" | "?":
                raise self._error("nothing to repeat")
            case _:
                return Literal(char)

    def _escape(self) -> Node:
        kind = self._text[self._at : self._at + 1]
        if kind in CLASSES and kind:
            self._at += 1
            return CLASSES[kind]
        if kind in ("A", "Z", "z"):
            self._at += 1
            return BEGIN if kind == "A" else END
        if kind in ("b", "B"):
            raise self._error("word boundaries are not supported")
        if kind.isdecimal() and kind != "0":
            raise self._error("back references are not supported")
        char, self._at = escaped_char(self._text, self._at)
        return Literal(char)

    def _group(self) -> Node:
        self._depth += 1
        if self._depth > _MOST_DEPTH:
            raise self._error(f"groups nested more than {_MOST_DEPTH} deep")
        if self._text.startswith("?", self._at):
            named = _NAMED.match(self._text, self._at)
            if named is not None:
                self._at = named.end()
            elif self._text.startswith("?:", self._at):
                self._at += 2
            else:
                raise self._error("look-around, flags and conditions are not supported")
        options = self._alternatives()
        if not self._text.startswith(")", self._at):
            raise self._error("a ( without its )")
        self._at += 1
        self._depth -= 1
        return choice(*map(self.joined, options))

    def _error(self, message: str) -> GrammarError:
        return GrammarError(f"{message}, at character {self._at} of the pattern")
