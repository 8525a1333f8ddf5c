"""Gemma's calls: `call:name{key:value,...}`, with marks of their own around text and no escapes."""

import json
import re
from collections.abc import Mapping
from typing import Any, cast

from refloat.grammar.calls.leaves import Leaf, leaves, one_object
from refloat.grammar.calls.tool import Tool
from refloat.grammar.calls.untagged import text_without, without
from refloat.grammar.errors import GrammarError
from refloat.grammar.json_text import BOOLEAN, NULL, NUMBER
from refloat.grammar.nodes import (
    EMPTY,
    Literal,
    Node,
    Reference,
    char_class,
    choice,
    optional,
    repeat,
    sequence,
)
from refloat.grammar.schema.keywords import Path, bounds
from refloat.grammar.schema.objects import Member, in_order, restricts_names
from refloat.grammar.schema.strings import ANY, text_node
from refloat.grammar.schema.values import listed_values

QUOTE = '<|"|>'
_COMMA = Literal(",")
_KEY = re.compile(r"[A-Za-z_][\w.\-/]*", re.ASCII)
_VALUE, _TEXT = Reference("gemma_value"), Reference("gemma_text")
_BARE_KEY = Reference("gemma_key")
_BEGINS_KEY = char_class(((0x41, 0x5A), (0x5F, 0x5F), (0x61, 0x7A)))
_IN_KEY = char_class((*_BEGINS_KEY.ranges, (0x30, 0x39), (0x2D, 0x2E)))


def _list_of(item: Node) -> Node:
    return sequence(item, repeat(sequence(_COMMA, item)))


RULES: dict[str, Node] = {
    "gemma_text": sequence(Literal(QUOTE), text_without((QUOTE,)), Literal(QUOTE)),
    "gemma_value": choice(
        *(_TEXT, NUMBER, BOOLEAN, NULL, Reference("gemma_list"), Reference("gemma_map")),
    ),
    "gemma_list": sequence(Literal("["), optional(_list_of(_VALUE)), Literal("]")),
    "gemma_map": sequence(
        Literal("{"), optional(_list_of(sequence(_BARE_KEY, Literal(":"), _VALUE))), Literal("}")
    ),
    "gemma_key": choice(_TEXT, sequence(_BEGINS_KEY, repeat(_IN_KEY, 0, 63))),
}
"""Any value in Gemma's writing."""


def gemma_call(tool: Tool) -> Node:
    """One call without its marks. Raises `GrammarError`."""
    properties, required, path = one_object(tool.builder)
    inner = _members(tool, properties, required, path)
    return sequence(Literal(f"call:{tool.name}{{"), inner, Literal("}"))


def _members(
    tool: Tool, properties: Mapping[str, Any], required: list[str], path: Path, depth: int = 0
) -> Node:
    members: list[Member] = []
    for name, schema in properties.items():
        if not _KEY.fullmatch(name):
            raise GrammarError("a name that cannot stand before a colon", (*path, name))
        value = _value(tool, schema, (*path, name), depth)
        key: Node = Literal(name)
        if depth:  # templates differ in whether inner ones are quoted
            key = choice(key, Literal(f"{QUOTE}{name}{QUOTE}"))
        members.append(Member(sequence(key, Literal(":"), value), name in required))
    if not members:
        return EMPTY
    inner, may_be_empty = in_order(tool.builder, members, _COMMA)
    return optional(inner) if may_be_empty else inner


def _value(tool: Tool, schema: Any, path: Path, depth: int) -> Node:
    return choice(*(_leaf(tool, leaf, depth) for leaf in leaves(tool.builder, schema, path, depth)))


def _leaf(tool: Tool, leaf: Leaf, depth: int) -> Node:
    match leaf.kind:
        case "any":
            return _VALUE
        case "string":
            text = text_node(leaf.schema, leaf.path)
            if text == repeat(ANY):
                return _TEXT
            return sequence(Literal(QUOTE), without(text, "<"), Literal(QUOTE))
        case "listed":
            values = listed_values(tool.builder, leaf.schema, leaf.path)
            return choice(*(_constant(value, leaf.path) for value in values))
        case "array":
            return _array(tool, leaf, depth + 1)
        case "object":
            return _object(tool, leaf, depth + 1)
        case _:
            return tool.builder.node(leaf.schema, leaf.path)


def _array(tool: Tool, leaf: Leaf, depth: int) -> Node:
    schema, path = leaf.schema, leaf.path
    if "prefixItems" in schema or isinstance(schema.get("items"), list):
        raise GrammarError("first items by themselves are not supported in Gemma's calls", path)
    least, most = bounds(schema, "minItems", "maxItems", path)
    item = _value(tool, schema.get("items", True), (*path, "items"), depth)
    if most == 0:
        return Literal("[]")
    rest = None if most is None else most - 1
    some = sequence(item, repeat(sequence(_COMMA, item), max(0, least - 1), rest))
    return sequence(Literal("["), some if least else optional(some), Literal("]"))


def _object(tool: Tool, leaf: Leaf, depth: int) -> Node:
    schema, path = leaf.schema, leaf.path
    if leaf.is_bare:
        return Reference("gemma_map")
    if not isinstance(schema.get("properties"), Mapping):
        raise GrammarError("objects have to name their properties in Gemma's calls", path)
    if restricts_names(schema):
        raise GrammarError("not supported in Gemma's calls", (*path, "propertyNames"))
    if "minProperties" in schema or "maxProperties" in schema:
        raise GrammarError("counts of properties are not supported in Gemma's calls", path)
    properties = cast("Mapping[str, Any]", schema["properties"])
    required = [str(name) for name in cast("list[Any]", schema.get("required", []))]
    if not all(name in properties for name in required):
        raise GrammarError("a required property is not among the properties", (*path, "required"))
    inner = _members(tool, properties, required, (*path, "properties"), depth)
    return sequence(Literal("{"), inner, Literal("}"))


def _constant(value: Any, path: Path) -> Node:
    match value:
        case str():
            if QUOTE in value:
                raise GrammarError("a value that cannot be written in Gemma's calls", path)
            return Literal(f"{QUOTE}{value}{QUOTE}")
        case None | bool() | int() | float():
            return Literal(json.dumps(value))
        case _:
            raise GrammarError("only plain values can be listed in Gemma's calls", path)
