"""A caller's own grammar in EBNF (GBNF as llama.cpp and xgrammar write it), read into ours."""

from refloat.grammar.grammar import Grammar


def from_ebnf(text: str) -> Grammar:
    """Raises `GrammarError` with the line of what is wrong."""
    raise NotImplementedError
