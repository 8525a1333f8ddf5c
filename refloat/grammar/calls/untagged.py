"""Text in which some tags do not occur, and grammars in which some characters do not."""

from collections.abc import Iterable, Mapping

from refloat.grammar.errors import GrammarError
from refloat.grammar.nodes import (
    CharClass,
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

_CDATA_PLAIN = all_but(((0x5D, 0x5D),))
_BRACKET = Literal("]")


def text_without(tags: Iterable[str]) -> Node:
    """Any text in which none of the tags occurs. No tag may hold, behind its first character, one
    that a tag begins with."""
    tags = tuple(tags)
    firsts = "".join(sorted({tag[0] for tag in tags}))
    assert not any(char in firsts for tag in tags for char in tag[1:])
    plain = all_but((ord(char), ord(char)) for char in firsts)
    # Each piece begins as a tag does and leaves all tags, or ends, before the next such character.
    pieces = [
        sequence(
            Literal(first), _off(tuple(tag[1:] for tag in tags if tag[0] == first), firsts, plain)
        )
        for first in firsts
    ]
    return sequence(repeat(plain), repeat(choice(*pieces)))


def _off(rests: tuple[str, ...], firsts: str, plain: CharClass) -> Node:
    """What may follow a tag's beginning, of which these are the rests."""
    nexts = sorted({rest[0] for rest in rests})
    other = all_but((ord(char), ord(char)) for char in (*firsts, *nexts))
    options: list[Node] = [sequence(other, repeat(plain))]
    for char in nexts:
        behind = tuple(rest[1:] for rest in rests if rest[0] == char)
        if all(behind):
            options.append(sequence(Literal(char), _off(behind, firsts, plain)))
    return optional(choice(*options))


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

    return with_leaves(node, change)


def _spelled(char: str, banned: str, spelling: Mapping[str, str]) -> str:
    if char not in banned:
        return char
    if char not in spelling:
        raise GrammarError(f"{char} cannot be part of a value in this model's format of calls")
    return spelling[char]
