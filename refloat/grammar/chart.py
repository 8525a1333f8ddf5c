"""Reads a text by a grammar, character by character, keeping all ways in which it can be read (Earley).

An item says: this entry began there, and came so far. Whoever waits for an entry to end is kept by
where it began. Entries that can be empty are passed at once when they are predicted, and of a chain
of ends that nobody else waits for only the last is made (Leo), so that lists written as recursion do
not cost the square of their length.
"""

from typing import NamedTuple

from refloat.grammar.errors import GrammarError
from refloat.grammar.free_text import FreeText, reading_of
from refloat.grammar.grammar import Grammar
from refloat.grammar.nodes import CharClass, Free, Literal
from refloat.grammar.tables import Kind, Tables

#: Steps for each text, and for each of its characters, before it is given up as too ambiguous.
_MOST_STEPS, _STEPS_BY_CHAR = 200_000, 150


class Item(NamedTuple):
    """An entry under way."""

    entry: int
    """`WHOLE`: the text itself."""
    at: int
    """Parts that are over; of a repetition its times; of a literal its characters; of free text its
    state."""
    origin: int
    """Where it began."""


WHOLE = -1
_SCANNED = (Kind.LITERAL, Kind.CLASS, Kind.FREE)


class Chart:
    """A text as far as it was read."""

    def __init__(self, grammar: Grammar) -> None:
        """Raises `GrammarError` if the grammar has no words."""
        self.tables = Tables(grammar)
        self.waiting: list[dict[int, list[Item]]] = []
        """By place: who waits for which entry to end that begins there."""
        self.expected: list[Item] = []
        """Literals and classes that the next character can be of."""
        self.may_end = False
        """The text read so far is a word of the grammar."""
        self._leo: dict[tuple[int, int], tuple[int, int]] = {}
        self._left = _MOST_STEPS
        self._stack: list[Item] = []
        self._seen: set[Item] = set()
        self._predicted: set[int] = set()
        self._ended: set[tuple[int, int]] = set()
        self._begin_place()
        self._wait(self.tables.start, Item(WHOLE, 0, 0))
        self.may_end = self.tables.nullable[self.tables.start]
        self._settle()

    @property
    def place(self) -> int:
        """Characters read."""
        return len(self.waiting) - 1

    def feed(self, text: str) -> bool:
        """Read on; false if no word begins so. Raises `GrammarError` where it gets too ambiguous."""
        self._left += _STEPS_BY_CHAR * len(text)
        return all(map(self._feed, text))

    def _feed(self, char: str) -> bool:
        expected, code = self.expected, ord(char)
        self._begin_place()
        entries = self.tables.entries
        for item in expected:
            node = entries[item.entry].node
            if isinstance(node, CharClass):
                for first, last in node.ranges:
                    if first <= code <= last:
                        self._end(item.entry, item.origin)
                        break
            elif isinstance(node, Literal) and node.text[item.at] == char:
                if item.at + 1 == len(node.text):
                    self._end(item.entry, item.origin)
                else:
                    self.expected.append(Item(item.entry, item.at + 1, item.origin))
            elif isinstance(node, Free):
                state = reading_of(node).after(item.at, char)
                if state != FreeText.DEAD:
                    self.expected.append(Item(item.entry, state, item.origin))
                    self._end(item.entry, item.origin)
        self._settle()
        return self.may_end or bool(self.expected)

    def _begin_place(self) -> None:
        self.waiting.append({})
        self.expected = []
        self.may_end = False
        self._seen = set()
        self._predicted = set()
        self._ended = set()

    def _settle(self) -> None:
        while self._stack:
            self._take(self._stack.pop())

    def _take(self, item: Item) -> None:
        """Predict what an item needs next, or end it."""
        entry = self.tables.entries[item.entry]
        if entry.kind is Kind.SEQUENCE:
            if item.at == len(entry.children):
                self._end(item.entry, item.origin)
                return
            child = entry.children[item.at]
            self._wait(child, item)
            if self.tables.nullable[child]:
                self._add(Item(item.entry, item.at + 1, item.origin))
        elif entry.kind is Kind.REPEAT:
            child = entry.children[0]
            if item.at >= entry.least or self.tables.nullable[child]:
                self._end(item.entry, item.origin)
            if entry.most is None or item.at < entry.most:
                self._wait(child, item)
        elif item.at:
            self._end(item.entry, item.origin)
        else:
            for child in entry.children:
                self._wait(child, item)

    def _wait(self, child: int, item: Item) -> None:
        waiting = self.waiting[-1].setdefault(child, [])
        if item not in waiting[-1:]:
            waiting.append(item)
        if child in self._predicted:
            return
        self._predicted.add(child)
        first = Item(child, 0, self.place)
        if self.tables.entries[child].kind in _SCANNED:
            self.expected.append(first)
        else:
            self._add(first)

    def _add(self, item: Item) -> None:
        self._left -= 1
        if self._left < 0:
            raise GrammarError("the grammar can be read in too many ways")
        if item in self._seen:
            return
        self._seen.add(item)
        self._stack.append(item)

    def _end(self, entry: int, origin: int) -> None:
        """An entry ends here. Those that are empty were passed when they were predicted."""
        if origin == self.place:
            return
        entry, origin = self._last_of_chain(entry, origin)
        if (entry, origin) in self._ended:
            return
        self._ended.add((entry, origin))
        for item in self.waiting[origin].get(entry, ()):
            if item.entry == WHOLE:
                self.may_end = True
            else:
                self._add(self._advanced(item))

    def _advanced(self, item: Item) -> Item:
        entry = self.tables.entries[item.entry]
        at = item.at + 1
        if entry.kind is Kind.REPEAT and entry.most is None:
            at = min(at, entry.least)
        return Item(item.entry, at, item.origin)

    def _last_of_chain(self, entry: int, origin: int) -> tuple[int, int]:
        """Follow ends that do nothing but end the only one who waits."""
        passed: list[tuple[int, int]] = []
        here = (entry, origin)
        while (known := self._leo.get(here)) is None:
            waiting = self.waiting[here[1]].get(here[0], ())
            if len(waiting) != 1 or not self._ends_with(waiting[0]):
                break
            passed.append(here)
            here = (waiting[0].entry, waiting[0].origin)
        here = here if known is None else known
        for link in passed:
            self._leo[link] = here
        return here

    def _ends_with(self, item: Item) -> bool:
        """Whether an item is over, and only over, once what it waits for is."""
        if item.entry == WHOLE:
            return False
        entry = self.tables.entries[item.entry]
        if entry.kind is Kind.SEQUENCE:
            return item.at + 1 == len(entry.children)
        return entry.kind is Kind.CHOICE
