"""Arrays: items, the first ones by themselves, and how many. Behind first ones only what is named."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from refloat.grammar.errors import GrammarError
from refloat.grammar.json_text import COMMA, VALUE, array_of, several
from refloat.grammar.nodes import EMPTY, NEVER, Node, choice, optional, repeat, sequence
from refloat.grammar.schema.keywords import Path, bounds

if TYPE_CHECKING:
    from refloat.grammar.schema.builder import SchemaBuilder


def array_node(builder: "SchemaBuilder", schema: Mapping[str, Any], path: Path) -> Node:
    """What the keywords of arrays allow. Raises `GrammarError`."""
    least, most = bounds(schema, "minItems", "maxItems", path)
    first, first_path = _first(schema, path)
    nodes = [builder.node(item, (*first_path, i)) for i, item in enumerate(first)]
    rest = _rest(builder, schema, path, has_first=bool(nodes))
    if not nodes:
        return _of_one_kind(rest, least, most)
    return array_of(_with_first(builder, nodes, rest, least, most))


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
