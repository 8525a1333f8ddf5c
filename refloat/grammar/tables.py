"""A grammar's nodes as numbered entries, for whoever walks through it by character."""

from enum import Enum
from typing import NamedTuple

from refloat.grammar.grammar import Grammar
from refloat.grammar.nodes import (
    CharClass,
    Choice,
    Free,
    Literal,
    Node,
    Reference,
    Repeat,
    Sequence,
)
from refloat.grammar.pruning import pruned


class Kind(Enum):
    """What an entry is made of. A reference is the entry of what it refers to."""

    LITERAL = "literal"
    CLASS = "class"
    FREE = "free"
    SEQUENCE = "sequence"
    CHOICE = "choice"
    REPEAT = "repeat"


class Entry(NamedTuple):
    """One node."""

    kind: Kind
    node: Node
    children: tuple[int, ...] = ()
    """Entries in a sequence, of a choice, or the one that is repeated."""
    least: int = 0
    most: int | None = None


class Tables:
    """The entries of one grammar; equal nodes are one entry."""

    def __init__(self, grammar: Grammar) -> None:
        """Raises `GrammarError` if the grammar has no words."""
        self.rules = pruned(grammar.rules, grammar.start)
        self.entries: list[Entry] = []
        self._numbers: dict[Node, int] = {}
        self._make(grammar.start)
        self.start = self._number(Reference(grammar.start))
        self.nullable = self._nullable()

    def _make(self, start: str) -> None:
        found: dict[Node, None] = {}
        stack: list[Node] = [Reference(start)]
        while stack:
            node = stack.pop()
            if node in found:
                continue
            found[node] = None
            stack += self._inner(node)
        plain = [node for node in found if not isinstance(node, Reference)]
        self._numbers = {node: number for number, node in enumerate(plain)}
        self.entries = [self._entry(node) for node in plain]

    def _inner(self, node: Node) -> tuple[Node, ...]:
        match node:
            case Sequence(inner) | Choice(inner):
                return inner
            case Repeat():
                return (node.node,)
            case Reference(name):
                return (self.rules[name],)
            case Literal() | CharClass() | Free():
                return ()

    def _entry(self, node: Node) -> Entry:
        children = tuple(self._number(child) for child in self._inner(node))
        match node:
            case Literal(text):
                return Entry(Kind.LITERAL if text else Kind.SEQUENCE, node)
            case CharClass():
                return Entry(Kind.CLASS, node)
            case Free():
                return Entry(Kind.FREE, node)
            case Choice():
                return Entry(Kind.CHOICE, node, children)
            case Repeat(_, least, most):
                return Entry(Kind.REPEAT, node, children, least, most)
            case Sequence() | Reference():
                return Entry(Kind.SEQUENCE, node, children)

    def _number(self, node: Node) -> int:
        # Pruning leaves no references that go round in circles.
        while isinstance(node, Reference):
            node = self.rules[node.name]
        return self._numbers[node]

    def _nullable(self) -> list[bool]:
        """Whether each entry can be the empty text."""
        parents: dict[int, list[int]] = {}
        for number, entry in enumerate(self.entries):
            for child in entry.children:
                parents.setdefault(child, []).append(number)
        known = [False] * len(self.entries)
        waiting = list(range(len(self.entries)))
        while waiting:
            number = waiting.pop()
            if not known[number] and self._may_be_empty(self.entries[number], known):
                known[number] = True
                waiting += parents.get(number, ())
        return known

    def _may_be_empty(self, entry: Entry, known: list[bool]) -> bool:
        match entry.kind:
            case Kind.LITERAL | Kind.CLASS:
                return False
            case Kind.FREE:
                return True
            case Kind.SEQUENCE:
                return all(known[child] for child in entry.children)
            case Kind.CHOICE:
                return any(known[child] for child in entry.children)
            case Kind.REPEAT:
                return entry.least == 0 or known[entry.children[0]]
