"""Strings: their length, pattern and format."""

from collections.abc import Mapping
from typing import Any

from refloat.grammar.errors import GrammarError
from refloat.grammar.json_text import CHAR, QUOTE, STRING
from refloat.grammar.nodes import Node, repeat, sequence
from refloat.grammar.schema.keywords import Path, bounds


def string_node(schema: Mapping[str, Any], path: Path) -> Node:
    """What the keywords of strings allow. Raises `GrammarError`."""
    least, most = bounds(schema, "minLength", "maxLength", path)
    for key in ("pattern", "format"):
        if schema.get(key) is not None:
            raise GrammarError(f"{key} is not supported yet", (*path, key))
    if least == 0 and most is None:
        return STRING
    return sequence(QUOTE, repeat(CHAR, least, most), QUOTE)
