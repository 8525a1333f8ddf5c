"""Names of properties that are not those already declared."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from refloat.grammar.json_text import PLAIN, QUOTE, SHORT_ESCAPES, spelled
from refloat.grammar.nodes import (
    NEVER,
    CharClass,
    Literal,
    Node,
    all_but,
    char_class,
    chars,
    choice,
    repeat,
    sequence,
)

if TYPE_CHECKING:
    from refloat.grammar.schema.builder import SchemaBuilder

_Tree = dict[str, "_Tree"]
_END = ""


def key_but(builder: "SchemaBuilder", names: Iterable[str]) -> Node:
    """A key in quotes that is none of the names. No escapes by number: they could spell a name."""
    tree: _Tree = {}
    for name in names:
        at = tree
        for char in name:
            at = at.setdefault(char, {})
        at[_END] = {}
    anything = builder.add_rule(sequence(repeat(_character(set())), QUOTE))
    return sequence(QUOTE, _but(builder, tree, anything))


def _but(builder: "SchemaBuilder", tree: _Tree, anything: Node) -> Node:
    """The rest of a key up to its quote."""
    known = {char for char in tree if char != _END}
    options: list[Node] = [sequence(_character(known), anything)]
    if _END not in tree:
        options.append(QUOTE)
    options += (
        sequence(spelled(char), _but(builder, tree[char], anything)) for char in sorted(known)
    )
    return builder.add_rule(choice(*options))


def _character(but: set[str]) -> Node:
    """One character, spelled so, that is none of some."""
    plain: CharClass = char_class(_minus(PLAIN, but))
    letters = "".join(letter for char, letter in SHORT_ESCAPES.items() if char not in but)
    escaped = sequence(Literal("\\"), chars(letters)) if letters else NEVER
    return choice(plain, escaped) if plain.ranges else escaped


def _minus(ranges: CharClass, but: set[str]) -> Iterable[tuple[int, int]]:
    outside = all_but(ranges.ranges).ranges
    return all_but((*outside, *((ord(char), ord(char)) for char in but))).ranges
