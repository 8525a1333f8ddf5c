"""What right-hand sides of a grammar's rules are made of, and functions that build them.

Nodes are immutable and compared by value. The functions keep what they make flat.
"""

from collections.abc import Callable, Iterable, Iterator

import msgspec

LAST_CHAR = 0x10FFFF
_SURROGATES = (0xD800, 0xDFFF)


class Literal(msgspec.Struct, frozen=True):
    """Exactly this text."""

    text: str


class CharClass(msgspec.Struct, frozen=True):
    """One character out of some. Always positive: engines disagree on negated classes."""

    ranges: tuple[tuple[int, int], ...]
    """Code points from and to, both included; ascending, apart from each other."""

    def __contains__(self, char: str) -> bool:
        code = ord(char)
        return any(first <= code <= last for first, last in self.ranges)


class Sequence(msgspec.Struct, frozen=True):
    """All of these, one behind another; of none it is the empty text."""

    parts: "tuple[Node, ...]"


class Choice(msgspec.Struct, frozen=True):
    """One of these; of none it matches nothing at all."""

    options: "tuple[Node, ...]"


class Repeat(msgspec.Struct, frozen=True):
    """The same several times."""

    node: "Node"
    least: int
    most: int | None
    """`None`: without end."""


class Reference(msgspec.Struct, frozen=True):
    """What the rule of this name matches."""

    name: str


class Free(msgspec.Struct, frozen=True):
    """Any text in which none of some tags occurs, as the engine can read it best. No tag may hold,
    behind its first character, one that a tag begins with (`free_text.py`)."""

    tags: tuple[str, ...]


Leaf = Literal | CharClass | Reference | Free
Node = Leaf | Sequence | Choice | Repeat

EMPTY = Sequence(())
NEVER = Choice(())


def char_class(ranges: Iterable[tuple[int, int]]) -> CharClass:
    """Ranges in order and joined, without surrogates, which no text holds."""
    merged: list[tuple[int, int]] = []
    for first, last in sorted(_without_surrogates(ranges)):
        if merged and first <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(last, merged[-1][1]))
        else:
            merged.append((first, last))
    return CharClass(tuple(merged))


def chars(text: str) -> CharClass:
    """One of the characters of a text."""
    return char_class((ord(char), ord(char)) for char in text)


def all_but(ranges: Iterable[tuple[int, int]]) -> CharClass:
    """Every character that lies in none of the ranges."""
    found: list[tuple[int, int]] = []
    at = 0
    for first, last in char_class(ranges).ranges:
        if first > at:
            found.append((at, first - 1))
        at = last + 1
    if at <= LAST_CHAR:
        found.append((at, LAST_CHAR))
    return char_class(found)


def sequence(*parts: Node) -> Node:
    """One behind another, flat, with literals joined."""
    flat: list[Node] = []
    for part in parts:
        for piece in part.parts if isinstance(part, Sequence) else (part,):
            last = flat[-1] if flat else None
            if isinstance(piece, Literal):
                if not piece.text:
                    continue
                if isinstance(last, Literal):
                    flat[-1] = Literal(last.text + piece.text)
                    continue
            flat.append(piece)
    return flat[0] if len(flat) == 1 else Sequence(tuple(flat))


def choice(*options: Node) -> Node:
    """One of several, flat, without repetitions."""
    flat: dict[Node, None] = {}
    for option in options:
        flat |= dict.fromkeys(option.options if isinstance(option, Choice) else (option,))
    return next(iter(flat)) if len(flat) == 1 else Choice(tuple(flat))


def optional(node: Node) -> Node:
    """The node or nothing."""
    return repeat(node, 0, 1)


def repeat(node: Node, least: int = 0, most: int | None = None) -> Node:
    """The node several times; the plain node where that is once."""
    if most == 0 or node == EMPTY:
        return EMPTY
    if least == most == 1:
        return node
    return Repeat(node, least, most)


def with_leaves(node: Node, change: Callable[[Leaf], Node]) -> Node:
    """A node of the same build, with what `change` makes of each leaf in its place."""
    match node:
        case Sequence(parts):
            return sequence(*(with_leaves(part, change) for part in parts))
        case Choice(options):
            return choice(*(with_leaves(option, change) for option in options))
        case Repeat(inner, least, most):
            return repeat(with_leaves(inner, change), least, most)
        case Literal() | CharClass() | Reference() | Free():
            return change(node)


def _without_surrogates(ranges: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    low, high = _SURROGATES
    for first, last in ranges:
        if last < low or first > high:
            yield first, last
            continue
        if first < low:
            yield first, low - 1
        if last > high:
            yield high + 1, last
