"""Random words of a grammar, for tests and for engines that only pretend."""

import random

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
    all_but,
)
from refloat.grammar.pruning import pruned

_NEVER = 1_000_000
_ALL = all_but(()).ranges
_ASCII = range(0x20, 0x7F)


def word(grammar: Grammar, chance: random.Random, size: int = 200) -> str:
    """A word; once it is longer than `size` characters it takes the shortest way to its end.

    Raises `GrammarError` if the grammar has no words.
    """
    return _Writer(grammar, chance, size).write()


class _Writer:
    def __init__(self, grammar: Grammar, chance: random.Random, size: int) -> None:
        self._rules = pruned(grammar.rules, grammar.start)
        self._start = grammar.start
        self._chance = chance
        self._size = size
        self._heights = dict.fromkeys(self._rules, _NEVER)
        """How deep the flattest way through each rule goes."""
        self._measure()

    def write(self) -> str:
        out: list[str] = []
        written = 0
        stack: list[Node] = [Reference(self._start)]
        while stack:
            match stack.pop():
                case Literal(text):
                    out.append(text)
                    written += len(text)
                case CharClass(ranges):
                    out.append(self._char(ranges))
                    written += 1
                case Free(tags):
                    out.append(self._free(tags))
                    written += len(out[-1])
                case Reference(name):
                    stack.append(self._rules[name])
                case Sequence(parts):
                    stack += reversed(parts)
                case Choice(options):
                    stack.append(self._option(options, hurry=written + len(stack) > self._size))
                case Repeat(node, least, most):
                    times = least
                    if written + len(stack) <= self._size:
                        times += self._chance.randint(
                            0, 4 if most is None else min(4, most - least)
                        )
                    stack += [node] * times
        return "".join(out)

    def _option(self, options: tuple[Node, ...], *, hurry: bool) -> Node:
        return min(options, key=self._height) if hurry else self._chance.choice(options)

    def _char(self, ranges: tuple[tuple[int, int], ...]) -> str:
        first, last = self._chance.choice(ranges)
        if first in _ASCII and self._chance.random() < 0.8:
            last = min(last, _ASCII[-1])
        return chr(self._chance.randint(first, last))

    def _free(self, tags: tuple[str, ...]) -> str:
        """Beginnings of tags too, which are none."""
        pieces = [self._char(_ALL) for _ in range(4)] + [tag[: len(tag) // 2] for tag in tags]
        return "".join(self._chance.sample(pieces, self._chance.randint(0, 4)))

    def _measure(self) -> None:
        changed = True
        while changed:
            changed = False
            for name, node in self._rules.items():
                height = self._height(node) + 1
                if height < self._heights[name]:
                    self._heights[name] = height
                    changed = True

    def _height(self, node: Node) -> int:
        match node:
            case Literal() | CharClass() | Free():
                return 0
            case Reference(name):
                return self._heights[name]
            case Sequence(parts):
                return max(map(self._height, parts), default=0)
            case Choice(options):
                return min(map(self._height, options))
            case Repeat(inner, least, _):
                return self._height(inner) if least else 0
