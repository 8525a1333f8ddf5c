"""One grammar or another, as one grammar. Pure."""

from typing import assert_never

from refloat.grammar.grammar import ROOT, Grammar
from refloat.grammar.nodes import (
    CharClass,
    Choice,
    Free,
    Literal,
    Node,
    Reference,
    Repeat,
    Sequence,
    choice,
)


def either(first: Grammar, second: Grammar) -> Grammar:
    """What the first allows, or the second. Rules of the same name are no concern of each other."""
    rules: dict[str, Node] = {}
    starts: list[Node] = []
    for prefix, grammar in (("a_", first), ("b_", second)):
        rules |= {prefix + name: _renamed(node, prefix) for name, node in grammar.rules.items()}
        starts.append(Reference(prefix + grammar.start))
    return Grammar({ROOT: choice(*starts), **rules})


def _renamed(node: Node, prefix: str) -> Node:
    match node:
        case Literal() | CharClass() | Free():
            return node
        case Reference(name):
            return Reference(prefix + name)
        case Sequence(parts):
            return Sequence(tuple(_renamed(part, prefix) for part in parts))
        case Choice(options):
            return Choice(tuple(_renamed(option, prefix) for option in options))
        case Repeat(inner, least, most):
            return Repeat(_renamed(inner, prefix), least, most)
        case _:
            assert_never(node)
