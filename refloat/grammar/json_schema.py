"""JSON text as grammars: any value, any object, or what a JSON Schema allows."""

from typing import Any

from refloat.grammar.grammar import ROOT, Grammar
from refloat.grammar.json_text import OBJECT, RULES, VALUE
from refloat.grammar.limits import check_schema
from refloat.grammar.nodes import Node
from refloat.grammar.pruning import pruned
from refloat.grammar.schema.builder import SchemaBuilder


def any_json() -> Grammar:
    """Any JSON value."""
    return _grammar({ROOT: VALUE})


def any_json_object() -> Grammar:
    """Any JSON object."""
    return _grammar({ROOT: OBJECT})


def from_json_schema(schema: Any) -> Grammar:
    """What a schema allows, in its own order of properties.

    Never more than the schema allows, at places less: objects that name `properties` have no others
    unless `additionalProperties` says so. Raises `GrammarError` with the path of what cannot be held.
    """
    check_schema(schema)
    builder = SchemaBuilder(schema)
    root = builder.build()
    return _grammar({**builder.rules, ROOT: root})


def _grammar(rules: dict[str, Node]) -> Grammar:
    return Grammar(pruned({**RULES, **rules}, ROOT))
