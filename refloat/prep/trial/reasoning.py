"""Reasoning that may stand before guided text: any text up to the mark that ends it. Pure."""

from refloat.grammar.grammar import Grammar
from refloat.grammar.nodes import (
    EMPTY,
    Literal,
    Node,
    Reference,
    all_but,
    chars,
    choice,
    optional,
    repeat,
    sequence,
)
from refloat.wire.guide import ReasoningSpan

#: Line breaks that models put behind their reasoning.
_MOST_BREAKS = 2


def after_reasoning(grammar: Grammar, span: ReasoningSpan) -> Grammar:
    """What the grammar allows, behind reasoning: behind the rest of it where the prompt has begun it,
    else there may be none."""
    prefix = "reasoning_"
    while any(name.startswith(prefix) for name in grammar.rules):
        prefix += "_"
    first = sequence(Reference(f"{prefix}0"), repeat(Literal("\n"), 0, _MOST_BREAKS))
    if not span.is_open:
        first = optional(sequence(Literal(span.begin), first))
    start = f"{prefix}first"
    rules = {start: sequence(first, Reference(grammar.start)), **_states(span.end, prefix)}
    return Grammar({**rules, **grammar.rules}, start)


def _states(mark: str, prefix: str) -> dict[str, Node]:
    """Any text that has the mark at its end and nowhere else: a rule for each number of the mark's
    characters that have just been seen."""
    rules: dict[str, Node] = {}
    for seen in range(len(mark)):
        ways: list[Node] = []
        others = ""
        for char in sorted(set(mark)):
            following = _seen(mark, mark[:seen] + char)
            if not following:
                others += char
                continue
            rest = EMPTY if following == len(mark) else Reference(f"{prefix}{following}")
            ways.append(sequence(Literal(char), rest))
        outside = all_but([(ord(char), ord(char)) for char in set(mark)])
        start = Reference(f"{prefix}0")
        ways.append(sequence(outside, start))
        if others:
            ways.append(sequence(chars(others), start))
        rules[f"{prefix}{seen}"] = choice(*ways)
    return rules


def _seen(mark: str, text: str) -> int:
    """How many of the mark's characters a text ends with."""
    return next(
        count for count in range(min(len(mark), len(text)), -1, -1) if text.endswith(mark[:count])
    )
