"""Patterns that have to hold together, and with a length: as one automaton, and as rules again.

A pattern is a set of places (its classes, and those that may follow each), so that two of them are
walked at once, and characters counted.
"""

import itertools
from collections.abc import Callable, Iterable
from typing import NamedTuple

from refloat.grammar.errors import GrammarError
from refloat.grammar.nodes import (
    EMPTY,
    CharClass,
    Choice,
    Free,
    Literal,
    Node,
    Reference,
    Repeat,
    Sequence,
    all_but,
    char_class,
    chars,
    choice,
    sequence,
)

MOST_PLACES = 2_000
MOST_STATES = 2_000
_BEGIN = -1


_State = tuple[int, ...]
"""Places in some automata, and characters so far."""


class _Part(NamedTuple):
    """Of a pattern: where its words begin and end, and whether the empty text is one."""

    first: frozenset[int]
    last: frozenset[int]
    may_be_empty: bool


class Automaton:
    """One pattern."""

    def __init__(self, node: Node) -> None:
        """Raises `GrammarError` for a pattern that is too large."""
        self.classes: list[CharClass] = []
        self._follow: list[set[int]] = []
        whole = self._part(node)
        self._first = whole.first
        self._ends: frozenset[int] = whole.last | frozenset((_BEGIN,) if whole.may_be_empty else ())

    def next_places(self, place: int) -> Iterable[int]:
        """Where the next character may stand."""
        return self._first if place == _BEGIN else self._follow[place]

    def may_end(self, place: int) -> bool:
        """Whether a word may end with this place's character."""
        return place in self._ends

    def _part(self, node: Node) -> _Part:
        match node:
            case Literal(text):
                return self._sequence([chars(char) for char in text])
            case CharClass():
                place = self._place(node)
                return _Part(frozenset((place,)), frozenset((place,)), False)
            case Sequence(parts):
                return self._sequence(parts)
            case Choice(options):
                parts = [self._part(option) for option in options]
                return _Part(
                    frozenset[int]().union(*(part.first for part in parts)),
                    frozenset[int]().union(*(part.last for part in parts)),
                    any(part.may_be_empty for part in parts),
                )
            case Repeat():
                return self._repeat(node)
            case Reference() | Free():
                raise GrammarError("patterns hold no rules")

    def _place(self, node: CharClass) -> int:
        if len(self.classes) >= MOST_PLACES:
            raise GrammarError("the pattern is too large to be held together with something else")
        self.classes.append(node)
        self._follow.append(set())
        return len(self.classes) - 1

    def _sequence(self, nodes: Iterable[Node]) -> _Part:
        whole = _Part(frozenset(), frozenset(), True)
        for node in nodes:
            whole = self._joined(whole, self._part(node))
        return whole

    def _joined(self, one: _Part, other: _Part) -> _Part:
        self._link(one.last, other.first)
        first = one.first | other.first if one.may_be_empty else one.first
        last = one.last | other.last if other.may_be_empty else other.last
        return _Part(first, last, one.may_be_empty and other.may_be_empty)

    def _link(self, last: frozenset[int], first: frozenset[int]) -> None:
        for place in last:
            self._follow[place] |= first

    def _repeat(self, node: Repeat) -> _Part:
        whole = _Part(frozenset(), frozenset(), True)
        for _ in range(node.least):
            whole = self._joined(whole, self._part(node.node))
        if node.most is None:
            part = self._part(node.node)
            self._link(part.last, part.first)
            return self._joined(whole, part._replace(may_be_empty=True))
        for _ in range(node.most - node.least):
            # Each of them may be left out; those that are there may as well be the first ones.
            part = self._part(node.node)
            whole = self._joined(whole, part._replace(may_be_empty=True))
        return whole


def held_together(
    nodes: Iterable[Node],
    lengths: tuple[int, int | None],
    rules: Callable[[], Reference],
    spell: Callable[[CharClass], Node],
) -> tuple[Node, dict[str, Node]]:
    """What all patterns match and is neither too short nor too long, and the rules that it needs.

    `rules` makes names for rules, `spell` says how a character is written. Raises `GrammarError`.
    """
    walk = _Walk([Automaton(node) for node in nodes], *lengths)
    start: _State = (*(_BEGIN for _ in walk.automata), 0)
    names: dict[_State, Reference] = {start: rules()}
    made: dict[str, Node] = {}
    waiting: list[_State] = [start]
    while waiting:
        state = waiting.pop()
        options: list[Node] = [EMPTY] if walk.may_end(state) else []
        for following, ranges in walk.steps(state).items():
            if following not in names:
                if len(names) >= MOST_STATES:
                    raise GrammarError("pattern and length are too much to be held together")
                names[following] = rules()
                waiting.append(following)
            options.append(sequence(spell(char_class(ranges)), names[following]))
        made[names[state].name] = choice(*options)
    return names[start], made


class _Walk:
    """Several automata at once. A state is a place in each of them, and characters so far."""

    def __init__(self, automata: list[Automaton], least: int, most: int | None) -> None:
        self.automata = automata
        self._least = least
        self._most = most

    def may_end(self, state: tuple[int, ...]) -> bool:
        """Whether a word may be over."""
        pairs = zip(self.automata, state[:-1], strict=True)
        return state[-1] >= self._least and all(a.may_end(place) for a, place in pairs)

    def steps(self, state: tuple[int, ...]) -> dict[tuple[int, ...], list[tuple[int, int]]]:
        """States behind one more character, by the characters that lead to them."""
        count = state[-1] + 1
        if self._most is not None and count > self._most:
            return {}
        count = min(count, self._least) if self._most is None else count
        found: dict[tuple[int, ...], list[tuple[int, int]]] = {}
        pairs = zip(self.automata, state[:-1], strict=True)
        for places in itertools.product(*(a.next_places(place) for a, place in pairs)):
            shared = all_but(())
            for automaton, place in zip(self.automata, places, strict=True):
                shared = _shared(shared, automaton.classes[place])
            if shared.ranges:
                found.setdefault((*places, count), []).extend(shared.ranges)
        return found


def _shared(one: CharClass, other: CharClass) -> CharClass:
    """Characters of both."""
    return all_but((*all_but(one.ranges).ranges, *all_but(other.ranges).ranges))
