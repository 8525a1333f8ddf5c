"""Text in which some tags do not occur, and grammars in which some characters do not."""

from collections.abc import Iterable, Mapping

from refloat.grammar.errors import GrammarError
from refloat.grammar.free_text import reading_of
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
    repeat,
    sequence,
    with_leaves,
)

_CDATA_PLAIN = all_but(((0x5D, 0x5D),))
_BRACKET = Literal("]")


def text_without(tags: Iterable[str]) -> Node:
    """Any text in which none of the tags occurs. No tag may hold, behind its first character, one
    that a tag begins with."""
    free = Free(tuple(tags))
    reading_of(free)
    return free


def cdata_text() -> Node:
    """Any text in which `]]>` does not occur, even with what follows it."""
    run = sequence(_BRACKET, repeat(_BRACKET, 1), all_but(((0x5D, 0x5D), (0x3E, 0x3E))))
    pieces = choice(_CDATA_PLAIN, sequence(_BRACKET, _CDATA_PLAIN), run)
    return sequence(repeat(pieces), repeat(_BRACKET))


def without(node: Node, banned: str, spelling: Mapping[str, str] | None = None) -> Node:
    """A node's words in which no banned character occurs.

    Where a literal has one, `spelling` says how else it is written. Raises `GrammarError` if not so.
    """

    def change(leaf: Leaf) -> Node:
        match leaf:
            case Literal(text):
                return Literal("".join(_spelled(char, banned, spelling or {}) for char in text))
            case CharClass(ranges):
                outside = all_but(ranges).ranges
                return all_but((*outside, *chars(banned).ranges))
            case Reference():
                return leaf
            case Free(tags):
                if not all(tag[0] in banned for tag in tags):
                    raise GrammarError(
                        "free text cannot be written in this model's format of calls"
                    )
                return repeat(all_but(chars(banned).ranges))

    return with_leaves(node, change)


def _spelled(char: str, banned: str, spelling: Mapping[str, str]) -> str:
    if char not in banned:
        return char
    if char not in spelling:
        raise GrammarError(f"{char} cannot be part of a value in this model's format of calls")
    return spelling[char]
