"""Reasoning that may stand before guided text: any text up to the mark that ends it. Pure."""

from refloat.grammar.grammar import Grammar
from refloat.grammar.nodes import Free, Literal, Reference, optional, repeat, sequence
from refloat.wire.guide import ReasoningSpan

#: Line breaks that models put behind their reasoning.
_MOST_BREAKS = 2


def after_reasoning(grammar: Grammar, span: ReasoningSpan) -> Grammar:
    """What the grammar allows, behind reasoning: behind the rest of it where the prompt has begun it,
    else there may be none."""
    prefix = "reasoning_"
    while any(name.startswith(prefix) for name in grammar.rules):
        prefix += "_"
    text = sequence(Free((span.end,)), Literal(span.end))
    first = sequence(text, repeat(Literal("\n"), 0, _MOST_BREAKS))
    if not span.is_open:
        first = optional(sequence(Literal(span.begin), first))
    start = f"{prefix}first"
    rules = {start: sequence(first, Reference(grammar.start))}
    return Grammar({**rules, **grammar.rules}, start)
