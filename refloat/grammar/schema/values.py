"""`enum` and `const`: values that are listed."""

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from refloat.grammar.errors import GrammarError
from refloat.grammar.grammar import ROOT, Grammar
from refloat.grammar.json_text import RULES, constant
from refloat.grammar.nodes import Node, choice
from refloat.grammar.residual import matches
from refloat.grammar.schema.keywords import ASSERTIONS, Path, types_of

if TYPE_CHECKING:
    from refloat.grammar.schema.builder import SchemaBuilder

_LISTS = ("const", "enum")


def listed_node(builder: "SchemaBuilder", schema: Mapping[str, Any], path: Path) -> Node:
    """The values that the rest of the schema allows. Raises `GrammarError`."""
    return choice(*map(constant, listed_values(builder, schema, path)))


def listed_values(builder: "SchemaBuilder", schema: Mapping[str, Any], path: Path) -> list[Any]:
    """Those values that the rest of the schema allows, if any. Raises `GrammarError`."""
    listed = _values(schema, path)
    rest = {key: value for key, value in schema.items() if key in ASSERTIONS and key not in _LISTS}
    if rest.keys() == {"type"}:
        types = types_of(schema, path)
        listed = [value for value in listed if _is_of(value, types)]
    elif rest:
        node = builder.node(rest, path)
        builder.settle()
        grammar = Grammar({**RULES, **builder.rules, ROOT: node})
        listed = [value for value in listed if matches(grammar, _text(value))]
    return listed


def _values(schema: Mapping[str, Any], path: Path) -> list[Any]:
    if "enum" not in schema:
        return [schema["const"]]
    listed = schema["enum"]
    if not isinstance(listed, list) or not listed:
        raise GrammarError("a list of values is expected", (*path, "enum"))
    values = cast("list[Any]", listed)
    return [v for v in values if "const" not in schema or _text(v) == _text(schema["const"])]


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _is_of(value: Any, types: tuple[str, ...]) -> bool:
    match value:
        case None:
            return "null" in types
        case bool():
            return "boolean" in types
        case int():
            return "integer" in types or "number" in types
        case float():
            return "number" in types or ("integer" in types and value.is_integer())
        case str():
            return "string" in types
        case list():
            return "array" in types
        case _:
            return "object" in types
