"""How large a grammar and what it is made of may be, checked before anything is compiled. Pure."""

from typing import Any

from refloat.grammar.grammar import Grammar


def check_schema(schema: Any) -> None:
    """Raises `GrammarError` for a schema nested too deep or with too much in it; never recurses."""


def check_grammar(grammar: Grammar) -> None:
    """Raises `GrammarError` for a grammar that the engine could not compile in reasonable time."""
