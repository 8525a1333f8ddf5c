"""What may still follow a text under a grammar, as a grammar; and whether the text may end there."""

from refloat.grammar.chart import WHOLE, Chart, Item
from refloat.grammar.free_text import FreeText, reading_of
from refloat.grammar.grammar import Grammar
from refloat.grammar.nodes import (
    EMPTY,
    Free,
    Literal,
    Node,
    Reference,
    Repeat,
    Sequence,
    all_but,
    chars,
    choice,
    repeat,
    sequence,
)
from refloat.grammar.pruning import pruned


def residual(grammar: Grammar, emitted: str) -> Grammar | None:
    """Exactly what may follow; `None` if the text is no beginning of anything in the grammar.

    Raises `GrammarError` where the grammar is too ambiguous to tell within bounds.
    """
    if not emitted:
        return grammar
    chart = Chart(grammar)
    return _Rest(chart).grammar() if chart.feed(emitted) else None


def matches(grammar: Grammar, text: str) -> bool:
    """Whether the whole text is in the grammar. Raises as `residual` does."""
    return keeps_to(grammar, text, is_whole=True)


def keeps_to(grammar: Grammar, text: str, *, is_whole: bool) -> bool:
    """Whether a text is in the grammar; one that is not whole has only to begin like something that
    is. Raises as `residual` does."""
    chart = Chart(grammar)
    return chart.feed(text) and (chart.may_end or not is_whole)


class _Rest:
    """What follows: for each entry under way a rule of what comes behind it."""

    def __init__(self, chart: Chart) -> None:
        self._chart = chart
        self._rules: dict[str, Node] = dict(chart.tables.rules)
        self._names: dict[tuple[int, int], str] = {}
        self._unmade: list[tuple[int, int]] = []
        self._free: dict[tuple[Free, int], str] = {}
        self._count = 0

    def grammar(self) -> Grammar:
        """All that may follow the chart's text."""
        options: list[Node] = [EMPTY] if self._chart.may_end else []
        for item in self._chart.expected:
            node = self._chart.tables.entries[item.entry].node
            options.append(
                sequence(self._left_of_leaf(node, item.at), self._behind(item.entry, item.origin))
            )
        start = self._new_name()
        self._rules[start] = choice(*options)
        while self._unmade:
            place = self._unmade.pop()
            self._rules[self._names[place]] = choice(*map(self._after, self._waiting(*place)))
        return Grammar(pruned(self._rules, start), start)

    def _left_of_leaf(self, node: Node, at: int) -> Node:
        match node:
            case Literal(text):
                return Literal(text[at:])
            case Free():
                return self._left_of_free(node, at)
            case _:
                return node

    def _left_of_free(self, node: Free, state: int) -> Node:
        """Free text whose beginning may have been that of a tag."""
        if state == 0:
            return node
        if (node, state) not in self._free:
            name = self._free[node, state] = self._new_name()
            self._rules[name] = EMPTY  # so that the name is taken
            reading = reading_of(node)
            telling = reading.telling(state)
            ways = {char: reading.after(state, char) for char in telling}
            self._rules[name] = choice(
                EMPTY,
                sequence(all_but(chars(telling).ranges), node),
                *(
                    sequence(Literal(char), self._left_of_free(node, behind))
                    for char, behind in ways.items()
                    if behind != FreeText.DEAD
                ),
            )
        return Reference(self._free[node, state])

    def _waiting(self, entry: int, origin: int) -> list[Item]:
        return self._chart.waiting[origin][entry]

    def _behind(self, entry: int, origin: int) -> Node:
        """What comes behind an entry that began at a place."""
        while len(waiting := self._waiting(entry, origin)) == 1:
            item = waiting[0]
            if item.entry == WHOLE:
                return EMPTY
            if self._left_of(item) != EMPTY:
                break
            entry, origin = item.entry, item.origin
        place = (entry, origin)
        if place not in self._names:
            self._names[place] = self._new_name()
            self._unmade.append(place)
        return Reference(self._names[place])

    def _after(self, item: Item) -> Node:
        if item.entry == WHOLE:
            return EMPTY
        return sequence(self._left_of(item), self._behind(item.entry, item.origin))

    def _left_of(self, item: Item) -> Node:
        """What an item still needs once what it waits for is over."""
        match self._chart.tables.entries[item.entry].node:
            case Sequence(parts):
                return sequence(*parts[item.at + 1 :])
            case Repeat(node, least, most):
                left = None if most is None else most - item.at - 1
                return repeat(node, max(0, least - item.at - 1), left)
            case _:
                return EMPTY

    def _new_name(self) -> str:
        while True:
            self._count += 1
            name = f"rest{self._count}"
            if name not in self._rules and name not in self._names.values():
                return name
