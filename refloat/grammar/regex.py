"""A regular expression as a grammar: what the whole text has to match."""

from refloat.grammar.errors import GrammarError
from refloat.grammar.grammar import ROOT, Grammar
from refloat.grammar.nodes import Node, choice
from refloat.grammar.pruning import pruned
from refloat.grammar.regex_parser import BEGIN, END, RegexParser, anchors_in


def from_regex(pattern: str) -> Grammar:
    """Raises `GrammarError` for what is wrong or no grammar can hold (look-around, back references).

    Classes such as `\\w` mean ASCII. `^` and `$` say nothing at the edges and are refused elsewhere.
    """
    node = choice(*(inner for _, inner, _ in alternatives(pattern)))
    return Grammar(pruned({ROOT: node}, ROOT))


def alternatives(pattern: str) -> list[tuple[bool, Node, bool]]:
    """Each alternative, with whether it is tied to the text's begin and end. Raises `GrammarError`."""
    found: list[tuple[bool, Node, bool]] = []
    for option in RegexParser(pattern).alternatives():
        parts = list(option)
        begins = ends = False
        while parts and parts[0] == BEGIN:
            begins = True
            parts.pop(0)
        while parts and parts[-1] == END:
            ends = True
            parts.pop()
        node = RegexParser.joined(parts)
        if anchors_in(node):
            raise GrammarError("^ and $ are supported at the edges only")
        found.append((begins, node, ends))
    return found
