"""What may still follow a text under a grammar, as a grammar; and whether the text may end there."""

from refloat.grammar.grammar import Grammar


def residual(grammar: Grammar, emitted: str) -> Grammar | None:
    """Exactly what may follow; `None` if the text is no beginning of anything in the grammar.

    Raises `GrammarError` where the grammar is too ambiguous to tell within bounds.
    """
    raise NotImplementedError


def matches(grammar: Grammar, text: str) -> bool:
    """Whether the whole text is in the grammar. Raises as `residual` does."""
    raise NotImplementedError
