"""Calls written as Python: `name(key=value, ...)`. Values are JSON that Python reads the same."""

import re

from refloat.grammar.calls.leaves import one_object
from refloat.grammar.calls.tool import Tool
from refloat.grammar.errors import GrammarError
from refloat.grammar.json_text import CHAR_ESCAPES, STRING
from refloat.grammar.nodes import (
    CharClass,
    Free,
    Leaf,
    Literal,
    Node,
    Reference,
    all_but,
    chars,
    choice,
    optional,
    repeat,
    sequence,
    with_leaves,
)
from refloat.grammar.schema.objects import Member, in_order

KEY = re.compile(r"[A-Za-z_][\w.\-/]*", re.ASCII)
_WORDS = {"true": "True", "false": "False", "null": "None"}
_PLAIN_QUOTED = re.compile(r'"([\w .+-]+)"(:?)')
_CONTROL = (0, 0x1F)
_QUOTED = sequence(
    Literal("'"),
    repeat(
        choice(
            all_but((_CONTROL, (0x27, 0x27), (0x5C, 0x5C))),
            sequence(Literal("\\"), chars("\\'\"nrt")),
        )
    ),
    Literal("'"),
)
"""Text as Python would write it."""


def pythonic_call(tool: Tool) -> Node:
    """One call. Raises `GrammarError`."""
    properties, required, path = one_object(tool.builder)
    members: list[Member] = []
    for name, schema in properties.items():
        if not KEY.fullmatch(name):
            raise GrammarError("a name that cannot stand before =", (*path, name))
        value = as_python(tool.builder.node(schema, (*path, name)))
        members.append(Member(sequence(Literal(f"{name}="), value), name in required))
    opening, closing = Literal(f"{tool.name}("), Literal(")")
    if not members:
        return sequence(opening, closing)
    inner, may_be_empty = in_order(tool.builder, members, Literal(", "))
    return sequence(opening, optional(inner) if may_be_empty else inner, closing)


def as_python(node: Node) -> Node:
    """JSON text as Python reads it: a slash has no escape."""
    return with_leaves(node, _leaf)


def _leaf(leaf: Leaf) -> Node:
    match leaf:
        case CharClass():
            return chars('"\\bfnrt') if leaf == CHAR_ESCAPES else leaf
        case Literal(text):
            return _literal(text)
        case Reference():
            return choice(leaf, _QUOTED) if leaf == STRING else leaf
        case Free():
            return leaf


def _literal(text: str) -> Node:
    """Words and plain quoted text, also as Python would write them."""
    if text in _WORDS:
        return choice(Literal(_WORDS[text]), Literal(text))
    quoted = _PLAIN_QUOTED.fullmatch(text)
    if quoted is None:
        return Literal(text)
    return choice(Literal(text), Literal(f"'{quoted[1]}'{quoted[2]}"))
