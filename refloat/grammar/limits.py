"""How large a grammar and what it is made of may be, checked before anything is compiled. Pure."""

import math
from collections.abc import Mapping
from typing import Any, cast

from refloat.grammar.errors import GrammarError
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

MOST_SCHEMA_DEPTH = 64
MOST_SCHEMA_VALUES = 20_000
MOST_SCHEMA_CHARS = 500_000
MOST_RULES = 5_000
MOST_NODES = 40_000
MOST_DEPTH = 100
MOST_TIMES = 100_000
"""Of a repetition's counts."""
MOST_COPIES = 50_000
"""Nodes if every bounded repetition were written out; single characters count once."""


def check_schema(schema: Any) -> None:
    """Raises `GrammarError` for a schema nested too deep or with too much in it; never recurses."""
    count = chars = 0
    stack: list[tuple[Any, int]] = [(schema, 0)]
    while stack:
        value, depth = stack.pop()
        count += 1
        if depth > MOST_SCHEMA_DEPTH:
            raise GrammarError(f"nested more than {MOST_SCHEMA_DEPTH} deep")
        if isinstance(value, float) and not math.isfinite(value):
            raise GrammarError("JSON has no such number")
        if isinstance(value, str):
            chars += len(value)
        elif isinstance(value, Mapping):
            pairs = cast("Mapping[str, Any]", value)
            chars += sum(map(len, pairs))
            stack += [(item, depth + 1) for item in pairs.values()]
        elif isinstance(value, list):
            stack += [(item, depth + 1) for item in cast("list[Any]", value)]
        if count > MOST_SCHEMA_VALUES or chars > MOST_SCHEMA_CHARS:
            raise GrammarError(
                f"more than {MOST_SCHEMA_VALUES} values or {MOST_SCHEMA_CHARS} characters"
            )


def check_grammar(grammar: Grammar) -> None:
    """Raises `GrammarError` for a grammar that the engine could not compile in reasonable time."""
    if len(grammar.rules) > MOST_RULES:
        raise GrammarError(f"more than {MOST_RULES} rules")
    nodes = copies = 0
    for name, node in grammar.rules.items():
        rule_nodes, rule_copies = _weight(node, 0, name)
        nodes += rule_nodes
        copies += rule_copies
    if nodes > MOST_NODES or copies > MOST_COPIES:
        raise GrammarError("the grammar is too large, or repeats too much")


def _weight(node: Node, depth: int, rule: str) -> tuple[int, int]:
    """Nodes as written, and as repeated."""
    if depth > MOST_DEPTH:
        raise GrammarError(f"nested more than {MOST_DEPTH} deep, in the rule {rule}")
    match node:
        case Literal() | CharClass() | Reference() | Free():
            return 1, 1
        case Sequence(inner) | Choice(inner):
            weights = [_weight(child, depth + 1, rule) for child in inner]
            return 1 + sum(w[0] for w in weights), 1 + sum(w[1] for w in weights)
        case Repeat(inner, least, most):
            times = max(least, most or 0, 1)
            if times > MOST_TIMES:
                raise GrammarError(f"a repetition of more than {MOST_TIMES}, in the rule {rule}")
            nodes, copies = _weight(inner, depth + 1, rule)
            is_plain = isinstance(inner, Literal | CharClass | Reference | Free)
            return nodes + 1, 1 if is_plain else copies * times
