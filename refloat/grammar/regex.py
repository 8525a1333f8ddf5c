"""A regular expression as a grammar: what the whole text has to match."""

from refloat.grammar.grammar import Grammar


def from_regex(pattern: str) -> Grammar:
    """Raises `GrammarError` for what is wrong or no grammar can hold (look-around, back references)."""
    raise NotImplementedError
