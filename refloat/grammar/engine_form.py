"""Rewrites rules into a form that the engine's grammar library reads right and compiles fast.

xgrammar 0.1.31 (in GenAI 2026.x) lets wrong tokens through where a class with characters beyond ASCII
stands behind a rule, so such classes become rules themselves. It takes seconds for a repetition of
more than 128, and milliseconds for the same in blocks. Where a token may end inside a repetition of
rules it looks at every token by itself whenever one is to be drawn (50 ms for 49,000); in runs of one
class it has looked before.
"""

from collections.abc import Iterable, Mapping

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
    choice,
    repeat,
    sequence,
)

_LAST_ASCII = 0x7F
_BLOCK = 64
_FEW = 4


def engine_form(rules: Mapping[str, Node], start: str) -> dict[str, Node]:
    """Rules of the same language, the first one first."""
    form = _Form(rules, _repeated_choices(rules.values()))
    form.rules[start] = form.node(rules[start])
    for name, node in rules.items():
        if name != start:
            form.rules[name] = form.node(node)
    return form.rules


def _repeated_choices(rules: Iterable[Node]) -> set[Node]:
    """Choices that stand in several places."""
    seen: set[Node] = set()
    again: set[Node] = set()
    stack = list(rules)
    while stack:
        node = stack.pop()
        if isinstance(node, Choice) and len(node.options) >= _FEW:
            if node in seen:
                again.add(node)
                continue
            seen.add(node)
        if isinstance(node, Choice):
            stack += node.options
        elif isinstance(node, Sequence):
            stack += node.parts
        elif isinstance(node, Repeat):
            stack.append(node.node)
    return again


def _is_wide(node: CharClass) -> bool:
    return any(last > _LAST_ASCII for _, last in node.ranges)


class _Form:
    def __init__(self, rules: Mapping[str, Node], shared: set[Node]) -> None:
        self._taken = rules
        self._shared = shared
        self._made: dict[Node, Reference] = {}
        self.rules: dict[str, Node] = {}

    def node(self, node: Node) -> Node:
        match node:
            case CharClass():
                return self._rule(node, "chars") if _is_wide(node) else node
            case Sequence(parts):
                return sequence(*map(self.node, parts))
            case Choice(options):
                written = choice(*map(self.node, options))
                return self._rule(written, "choice") if node in self._shared else written
            case Repeat(inner, least, most):
                runs = self._runs(inner) if most is None else None
                if runs is None:
                    return self._repeated(self.node(inner), least, most)
                return sequence(self._repeated(self.node(inner), least, least), runs)
            case Free():
                return self._rule(node, "free")
            case Literal() | Reference():
                return node

    def _rule(self, node: Node, kind: str) -> Reference:
        if node not in self._made:
            count = len(self._made) + 1
            while (name := f"{kind}{count}") in self._taken:
                count += len(self._taken)
            self._made[node] = Reference(name)
            self.rules[name] = node
        return self._made[node]

    def _runs(self, node: Node) -> Node | None:
        """Any number of what is one of many characters or something else: runs of the characters with
        something else between; `None` for other nodes."""
        if isinstance(node, Reference):
            node = self._taken[node.name]
        if not isinstance(node, Choice) or EMPTY in node.options:
            return None
        classes = [o for o in node.options if isinstance(o, CharClass) and _is_wide(o)]
        if len(classes) != 1:
            return None
        run = repeat(self.node(classes[0]))
        others = choice(*(self.node(o) for o in node.options if o != classes[0]))
        return sequence(run, repeat(self._rule(sequence(others, run), "item")))

    def _repeated(self, node: Node, least: int, most: int | None) -> Node:
        if isinstance(node, Choice) and EMPTY in node.options:
            # The same words, but not in endlessly many ways.
            node, least = choice(*(option for option in node.options if option != EMPTY)), 0
        if not isinstance(node, Literal | CharClass | Reference):
            node = self._rule(node, "item")
        if (least, most) in ((0, None), (1, None), (0, 1)):
            return repeat(node, least, most)
        if most == least and least <= _FEW:
            return repeat(node, least, most)
        # One rule for all places with the same repetition: the engine writes each out by itself.
        return self._rule(self._written(node, least, most), "times")

    def _written(self, node: Node, least: int, most: int | None) -> Node:
        if most is None:
            return sequence(self._exactly(node, least), repeat(node))
        if most <= _BLOCK:
            return repeat(node, least, most)
        return sequence(self._exactly(node, least), self._at_most(node, most - least))

    def _exactly(self, node: Node, times: int) -> Node:
        if times <= _BLOCK:
            return repeat(node, times, times)
        blocks, rest = divmod(times, _BLOCK)
        return sequence(self._exactly(self._block(node), blocks), self._exactly(node, rest))

    def _at_most(self, node: Node, times: int) -> Node:
        if times <= _BLOCK:
            return repeat(node, 0, times)
        blocks, rest = divmod(times + 1, _BLOCK)
        block = self._block(node)
        shorter = sequence(self._at_most(block, blocks - 1), repeat(node, 0, _BLOCK - 1))
        if rest == 0:
            return shorter
        longer = sequence(self._exactly(block, blocks), repeat(node, 0, rest - 1))
        return choice(shorter, longer)

    def _block(self, node: Node) -> Reference:
        return self._rule(repeat(node, _BLOCK, _BLOCK), "block")
