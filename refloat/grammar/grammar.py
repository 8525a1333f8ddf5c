"""A context-free grammar over characters, as data. Who makes it and what is done with it: beside."""

from collections.abc import Mapping

import msgspec

from refloat.grammar.ebnf_text import ebnf_text
from refloat.grammar.nodes import Node

#: The name of a grammar's first rule.
ROOT = "root"


class Grammar(msgspec.Struct, frozen=True):
    """Rules by name. Names are plain: letters, digits, `_`."""

    rules: Mapping[str, Node]
    start: str = ROOT

    def to_ebnf(self) -> str:
        """Text for the engine; its first rule is `root`. Raises `GrammarError` if it has no words."""
        return ebnf_text(self.rules, self.start)
