"""Arrays: items, the first ones by themselves, and how many. Behind first ones only what is named."""

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from refloat.grammar.errors import GrammarError
from refloat.grammar.json_text import COMMA, VALUE, array_of, constant, several
from refloat.grammar.nodes import EMPTY, NEVER, Node, choice, optional, repeat, sequence
from refloat.grammar.schema.keywords import Path, asserts, bounds
from refloat.grammar.schema.pointers import target_of
from refloat.grammar.schema.values import listed_values

if TYPE_CHECKING:
    from refloat.grammar.schema.builder import SchemaBuilder


#: Values of which an array may have each once.
_MOST_DISTINCT = 40
_MOST_REFERENCES = 20


def array_node(builder: "SchemaBuilder", schema: Mapping[str, Any], path: Path) -> Node:
    """What the keywords of arrays allow. Raises `GrammarError`."""
    least, most = bounds(schema, "minItems", "maxItems", path)
    if schema.get("uniqueItems") not in (None, False) and (most is None or most > 1):
        return _distinct(builder, schema, path, least, most)
    first, first_path = _first(schema, path)
    nodes = [builder.node(item, (*first_path, i)) for i, item in enumerate(first)]
    rest = _rest(builder, schema, path, has_first=bool(nodes))
    if not nodes:
        return _of_one_kind(rest, least, most)
    return array_of(_with_first(builder, nodes, rest, least, most))


def _distinct(
    builder: "SchemaBuilder",
    schema: Mapping[str, Any],
    path: Path,
    least: int,
    most: int | None,
) -> Node:
    """Some of the values that are listed for an item, in the order in which they are listed."""
    listed, place = _items(builder, schema, (*path, "items"))
    if not ({"enum", "const"} & listed.keys()) or "prefixItems" in schema:
        text = "uniqueItems is supported where items are of a listed kind (enum)"
        raise GrammarError(text, (*path, "uniqueItems"))
    # 1 and 1.0 are the same to JSON Schema, 1 and true are not.
    values = {
        json.dumps(int(v) if isinstance(v, float) and v.is_integer() else v): v
        for v in listed_values(builder, listed, place)
    }
    nodes = [constant(value) for value in values.values()]
    if len(nodes) > _MOST_DISTINCT:
        raise GrammarError(f"of more than {_MOST_DISTINCT} values", (*path, "uniqueItems"))
    return array_of(_some_of(builder, nodes, least, len(nodes) if most is None else most))


def _items(
    builder: "SchemaBuilder", schema: Mapping[str, Any], path: Path
) -> tuple[Mapping[str, Any], Path]:
    """The schema of all items, where it is an object, and its own path."""
    item: Any = schema.get("items")
    for _ in range(_MOST_REFERENCES):
        if not isinstance(item, Mapping):
            return {}, path
        found = cast("Mapping[str, Any]", item)
        if "$ref" not in found or asserts(found, but=("$ref",)):
            return found, path
        item, path = target_of(builder.root, str(found["$ref"]), (*path, "$ref"))
    raise GrammarError("references in a circle", path)


def _some_of(builder: "SchemaBuilder", nodes: list[Node], least: int, most: int) -> Node:
    rests: list[Node] = [EMPTY if count >= least else NEVER for count in range(len(nodes) + 2)]
    for index in reversed(range(len(nodes))):
        # What may follow `count` items, of which this one is none.
        rests = [
            builder.add_rule(
                choice(
                    sequence(COMMA if count else EMPTY, nodes[index], rests[count + 1])
                    if count < most
                    else NEVER,
                    rests[count],
                )
            )
            for count in range(index + 1)
        ] + rests[index + 1 :]
    return rests[0]


def _of_one_kind(item: Node, least: int, most: int | None) -> Node:
    if item == NEVER or most == 0:
        return array_of(EMPTY) if least == 0 else NEVER
    if least:
        return array_of(several(item, least, most))
    return choice(array_of(EMPTY), array_of(several(item, 1, most)))


def _first(schema: Mapping[str, Any], path: Path) -> tuple[list[Any], Path]:
    """Schemas of the first items; older drafts have them in `items`."""
    for key in ("prefixItems", "items"):
        found = schema.get(key)
        if isinstance(found, list):
            return cast("list[Any]", found), (*path, key)
        if key == "prefixItems" and found is not None:
            raise GrammarError("a list of schemas is expected", (*path, key))
    return [], path


def _rest(
    builder: "SchemaBuilder", schema: Mapping[str, Any], path: Path, *, has_first: bool
) -> Node:
    """The schema of all items behind the first ones."""
    key = "additionalItems" if isinstance(schema.get("items"), list) else "items"
    if key in schema:
        return builder.node(schema[key], (*path, key))
    return NEVER if has_first or schema.get("unevaluatedItems") is False else VALUE


def _with_first(
    builder: "SchemaBuilder", first: list[Node], rest: Node, least: int, most: int | None
) -> Node:
    count = len(first)
    tail: Node = EMPTY
    if rest != NEVER and (most is None or most > count):
        tail = repeat(
            sequence(COMMA, rest), max(0, least - count), None if most is None else most - count
        )
    elif least > count:
        return NEVER
    for index in reversed(range(count)):
        if most is not None and index >= most:
            tail = EMPTY
            continue
        item = sequence(COMMA if index else EMPTY, first[index], tail)
        # A rule each, so that the nesting is not in one text.
        tail = builder.add_rule(item if index < least else optional(item))
    return tail
