"""Objects: properties in the order of the schema, those not required omittable, and others behind."""

from collections.abc import Mapping
from collections.abc import Sequence as Items
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from refloat.grammar.errors import GrammarError
from refloat.grammar.json_text import (
    COLON,
    COMMA,
    STRING,
    constant,
    object_of,
    several,
)
from refloat.grammar.nodes import EMPTY, NEVER, Node, choice, optional, repeat, sequence
from refloat.grammar.schema.keys import key_but
from refloat.grammar.schema.keywords import Path, bounds

if TYPE_CHECKING:
    from refloat.grammar.schema.builder import SchemaBuilder


class Member(NamedTuple):
    """A property that is named."""

    node: Node
    """Key and value."""
    is_required: bool


def object_node(builder: "SchemaBuilder", schema: Mapping[str, Any], path: Path) -> Node:
    """What the keywords of objects allow. Raises `GrammarError`."""
    members = _members(builder, schema, path)
    if any(member.is_required and member.node == NEVER for member in members):
        raise GrammarError("a required property has no allowed value", (*path, "required"))
    members = [member for member in members if member.node != NEVER]
    other = _other(builder, schema, path)
    least, most = bounds(schema, "minProperties", "maxProperties", path)
    if not members and other is None:
        return object_of(EMPTY) if least == 0 else NEVER
    if not members and other is not None:
        return _of_others(other, least, most)
    needed = sum(member.is_required for member in members)
    if least > needed:
        raise GrammarError("more than are required is not supported", (*path, "minProperties"))
    if most is not None and (other is not None or most < len(members)):
        raise GrammarError("less than may be there is not supported", (*path, "maxProperties"))
    return _of_members(builder, members, other)


def _of_others(other: Node, least: int, most: int | None) -> Node:
    if most == 0:
        return object_of(EMPTY)
    some = object_of(several(other, max(1, least), most))
    return some if least else choice(object_of(EMPTY), some)


def _members(builder: "SchemaBuilder", schema: Mapping[str, Any], path: Path) -> list[Member]:
    properties = _mapping(schema, "properties", path)
    required = schema.get("required")
    names = cast("list[Any]", required) if isinstance(required, list) else []
    if (required is not None and not isinstance(required, list)) or not all(
        isinstance(name, str) for name in names
    ):
        raise GrammarError("a list of names is expected", (*path, "required"))
    others = schema.get("additionalProperties", True)
    everything = {**properties, **{n: others for n in names if n not in properties}}
    return [
        Member(_pair(builder, name, value, (*path, "properties", name)), name in names)
        for name, value in everything.items()
    ]


def _pair(builder: "SchemaBuilder", name: str, schema: Any, path: Path) -> Node:
    value = builder.node(schema, path)
    return NEVER if value == NEVER else sequence(constant(name), COLON, value)


def _other(builder: "SchemaBuilder", schema: Mapping[str, Any], path: Path) -> Node | None:
    """A property of another name, if one is allowed."""
    names: Items[str] = list(_mapping(schema, "properties", path)) + list(
        schema.get("required") or ()
    )
    said = schema.get("additionalProperties")
    if said is None:
        is_open = "properties" not in schema and not names
        said = is_open and schema.get("unevaluatedProperties") is not False
    value = builder.node(said, (*path, "additionalProperties"))
    if value == NEVER:
        return None
    return sequence(key_but(builder, names) if names else STRING, COLON, value)


def _of_members(builder: "SchemaBuilder", members: list[Member], other: Node | None) -> Node:
    inner, may_be_empty = in_order(builder, members, COMMA, other)
    some = object_of(inner)
    return choice(object_of(EMPTY), some) if may_be_empty else some


def in_order(
    builder: "SchemaBuilder", members: list[Member], comma: Node, other: Node | None = None
) -> tuple[Node, bool]:
    """One or more members with commas between them, and whether there may be none as well.

    `rests[i]` is what may follow once something stands before member i.
    """
    more = EMPTY if other is None else repeat(sequence(comma, other))
    rest: Node = more if more == EMPTY else builder.add_rule(more)
    rests = [rest]
    for member in reversed(members):
        part = sequence(comma, member.node)
        rest = builder.add_rule(sequence(part if member.is_required else optional(part), rest))
        rests.append(rest)
    rests.reverse()
    options: list[Node] = []
    may_be_empty = True
    for index, member in enumerate(members):
        options.append(sequence(member.node, rests[index + 1]))
        may_be_empty = not member.is_required
        if not may_be_empty:
            break
    if may_be_empty and other is not None:
        options.append(sequence(other, rests[-1]))
    return choice(*options), may_be_empty


def _mapping(schema: Mapping[str, Any], key: str, path: Path) -> Mapping[str, Any]:
    found = schema.get(key)
    if found is None:
        return {}
    if not isinstance(found, Mapping):
        raise GrammarError("an object is expected", (*path, key))
    return cast("Mapping[str, Any]", found)
