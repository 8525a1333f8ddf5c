"""Strings: their length, pattern and format.

Of a character that JSON can write in several ways, patterns allow one: itself, or its short escape.
"""

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from refloat.grammar.errors import GrammarError
from refloat.grammar.json_text import CHAR, QUOTE, SHORT_ESCAPES, STRING, spelled
from refloat.grammar.nodes import (
    LAST_CHAR,
    CharClass,
    Choice,
    Free,
    Leaf,
    Literal,
    Node,
    Reference,
    Repeat,
    Sequence,
    char_class,
    chars,
    choice,
    repeat,
    sequence,
    with_leaves,
)
from refloat.grammar.regex import alternatives
from refloat.grammar.schema.automaton import held_together
from refloat.grammar.schema.formats import FORMATS, forms_of
from refloat.grammar.schema.keywords import Path, bounds

if TYPE_CHECKING:
    from refloat.grammar.schema.builder import SchemaBuilder

ANY = char_class(((0, LAST_CHAR),))
"""Any character; in quotes, however it is written."""


class _Wanted(NamedTuple):
    """What is asked of a text."""

    patterns: list[Node]
    least: int
    most: int | None


class _Lengths(NamedTuple):
    least: int
    most: int | None


def string_node(builder: "SchemaBuilder", schema: Mapping[str, Any], path: Path) -> Node:
    """What the keywords of strings allow, in quotes. Raises `GrammarError`."""
    wanted = _wanted(schema, path)
    node = _plain(wanted, path)
    if node is None:
        lengths = (wanted.least, wanted.most)
        inner, rules = held_together(wanted.patterns, lengths, builder.new_rule, _class_as_json)
        builder.rules |= rules
    else:
        inner = _as_json(node)
    return STRING if inner == repeat(CHAR) else sequence(QUOTE, inner, QUOTE)


def text_node(schema: Mapping[str, Any], path: Path) -> Node:
    """What the keywords of strings allow, as plain text. Raises `GrammarError`."""
    node = _plain(_wanted(schema, path), path)
    if node is None:
        raise GrammarError("pattern and format or length together are not supported here", path)
    return node


def _plain(wanted: _Wanted, path: Path) -> Node | None:
    """The node, if that is simple."""
    if not wanted.patterns:
        return repeat(ANY, wanted.least, wanted.most)
    if len(wanted.patterns) > 1:
        return None
    return _of_length(wanted.patterns[0], wanted, path)


def _wanted(schema: Mapping[str, Any], path: Path) -> _Wanted:
    least, most = bounds(schema, "minLength", "maxLength", path)
    pattern, name = schema.get("pattern"), schema.get("format")
    patterns: list[Node] = []
    if name is not None and (not isinstance(name, str) or name not in FORMATS):
        known = ", ".join(FORMATS)
        raise GrammarError(f"this format is not supported; there are {known}", (*path, "format"))
    if name is not None and (forms := forms_of(name)):
        patterns.append(_fitting(forms, most))
    if pattern is not None:
        if not isinstance(pattern, str):
            raise GrammarError("a pattern is text", (*path, "pattern"))
        try:
            patterns.append(_searched(pattern))
        except GrammarError as error:
            raise GrammarError(error.message, (*path, "pattern")) from None
    return _Wanted(patterns, least, most)


def _fitting(forms: Iterable[str], most: int | None) -> Node:
    """The longest form of a format that keeps to the limit by itself; else its shortest one."""
    *longer, shortest = forms
    found = (node for node, lengths in map(_parsed, longer) if _within(lengths.most, most))
    return next(found, _parsed(shortest)[0])


# Schemas name the same few forms again and again.
@lru_cache(maxsize=64)
def _parsed(form: str) -> tuple[Node, _Lengths]:
    node = choice(*(node for _, node, _ in alternatives(form)))
    return node, _lengths(node)


def _searched(pattern: str) -> Node:
    """Any text in which the pattern is found."""
    options: list[Node] = []
    for begins, node, ends in alternatives(pattern):
        before = () if begins else (repeat(ANY),)
        behind = () if ends else (repeat(ANY),)
        options.append(sequence(*before, node, *behind))
    return choice(*options)


def _of_length(node: Node, wanted: _Wanted, path: Path) -> Node | None:
    """The words of a node that are neither too short nor too long, if that is simple."""
    found = _lengths(node)
    if found.least >= wanted.least and _within(found.most, wanted.most):
        return node
    if isinstance(node, Repeat) and isinstance(node.node, CharClass):
        least = max(node.least, wanted.least)
        limits = [limit for limit in (node.most, wanted.most) if limit is not None]
        if limits and min(limits) < least:
            raise GrammarError("no text is allowed by both pattern and length", path)
        return repeat(node.node, least, min(limits, default=None))
    return None


def _within(most: int | None, limit: int | None) -> bool:
    return limit is None or (most is not None and most <= limit)


def _lengths(node: Node) -> _Lengths:
    """Characters of the words of a node. References occur in no pattern."""
    match node:
        case Literal(text):
            return _Lengths(len(text), len(text))
        case CharClass() | Reference() | Free():
            return _Lengths(1, 1)
        case Sequence(parts):
            found = [_lengths(part) for part in parts]
            return _Lengths(sum(f.least for f in found), _sum([f.most for f in found]))
        case Choice(options):
            found = [_lengths(option) for option in options]
            mosts = [f.most for f in found]
            return _Lengths(min(f.least for f in found), None if None in mosts else _most(mosts))
        case Repeat(inner, least, most):
            one = _lengths(inner)
            whole = None if most is None or one.most is None else most * one.most
            return _Lengths(least * one.least, 0 if one.most == 0 else whole)


def _sum(mosts: list[int | None]) -> int | None:
    return None if None in mosts else sum(most or 0 for most in mosts)


def _most(mosts: list[int | None]) -> int:
    return max(most or 0 for most in mosts)


def _as_json(node: Node) -> Node:
    """The text of a node as it stands between a JSON string's quotes."""
    return with_leaves(node, _leaf_as_json)


def _leaf_as_json(leaf: Leaf) -> Node:
    match leaf:
        case Literal(text):
            return sequence(*map(spelled, text))
        case CharClass():
            return _class_as_json(leaf)
        case Reference() | Free():
            return leaf


@lru_cache(maxsize=256)  # a format's classes, in each string that has it
def _class_as_json(node: CharClass) -> Node:
    """Control characters only as far as they have a short escape."""
    if node == ANY:
        return CHAR
    plain = [piece for first, last in node.ranges for piece in _plain_pieces(first, last)]
    letters = "".join(letter for char, letter in SHORT_ESCAPES.items() if char in node)
    escaped = (sequence(Literal("\\"), chars(letters)),) if letters else ()
    return choice(*((char_class(plain),) if plain else ()), *escaped)


def _plain_pieces(first: int, last: int) -> list[tuple[int, int]]:
    pieces = [
        (max(first, low), min(last, high))
        for low, high in ((0x20, 0x21), (0x23, 0x5B), (0x5D, LAST_CHAR))
    ]
    return [(low, high) for low, high in pieces if low <= high]
