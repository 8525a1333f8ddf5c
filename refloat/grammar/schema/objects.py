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
from refloat.grammar.schema.keywords import Path, asserts, bounds

if TYPE_CHECKING:
    from refloat.grammar.schema.builder import SchemaBuilder


class Member(NamedTuple):
    """A property that is named."""

    node: Node
    """Key and value."""
    is_required: bool


def object_node(builder: "SchemaBuilder", schema: Mapping[str, Any], path: Path) -> Node:
    """What the keywords of objects allow. Raises `GrammarError`."""
    schema = _with_listed_names(schema)
    members = _members(builder, schema, path)
    if any(member.is_required and member.node == NEVER for member in members):
        raise GrammarError("a required property has no allowed value", (*path, "required"))
    members = [member for member in members if member.node != NEVER]
    other = _other(builder, schema, path)
    least, most = bounds(schema, "minProperties", "maxProperties", path)
    if not members and other is None:
        return object_of(EMPTY) if least == 0 else NEVER
    if not members and other is not None:
        return _of_others(other, least, most, path)
    needed = sum(member.is_required for member in members)
    if least > max(needed, 1):
        raise GrammarError("more than are required is not supported", (*path, "minProperties"))
    if most is not None and (other is not None or most < len(members)):
        raise GrammarError("less than may be there is not supported", (*path, "maxProperties"))
    return _of_members(builder, members, other, is_filled=least > 0)


def _of_others(other: Node, least: int, most: int | None, path: Path) -> Node:
    if most == 0:
        return object_of(EMPTY)
    if least > 1:  # a name that comes twice counts once
        raise GrammarError("more than 1 is not supported", (*path, "minProperties"))
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
    properties = _mapping(schema, "properties", path)
    names: Items[str] = [*properties, *(schema.get("required") or ())]
    patterns = _mapping(schema, "patternProperties", path)
    if patterns:
        return _of_pattern(builder, schema, patterns, path)
    said = schema.get("additionalProperties")
    if said is None:
        is_open = "properties" not in schema and not names
        said = is_open and schema.get("unevaluatedProperties") is not False
    value = builder.node(said, (*path, "additionalProperties"))
    key = _key(builder, schema, names, path)
    return None if NEVER in (value, key) else sequence(key, COLON, value)


def _key(
    builder: "SchemaBuilder", schema: Mapping[str, Any], names: Items[str], path: Path
) -> Node:
    if not restricts_names(schema):
        return key_but(builder, names) if names else STRING
    path = (*path, "propertyNames")
    if names or not isinstance(schema["propertyNames"], Mapping):
        raise GrammarError("beside named properties this is not supported", path)
    return builder.node({**schema["propertyNames"], "type": "string"}, path)


def restricts_names(schema: Mapping[str, Any]) -> bool:
    """Whether `propertyNames` asks for more than text."""
    said = schema.get("propertyNames", True)
    if said is True:
        return False
    if not isinstance(said, Mapping):
        return True
    said = cast("Mapping[str, Any]", said)
    return asserts(said, but=("type",)) or said.get("type", "string") != "string"


def _of_pattern(
    builder: "SchemaBuilder", schema: Mapping[str, Any], patterns: Mapping[str, Any], path: Path
) -> Node | None:
    """A property whose name matches the only pattern; others are not allowed."""
    path = (*path, "patternProperties")
    is_alone = not any(schema.get(key) for key in ("properties", "required"))
    if len(patterns) != 1 or not is_alone or restricts_names(schema):
        raise GrammarError("one pattern, and no named properties beside it, is supported", path)
    pattern, value_schema = next(iter(patterns.items()))
    key = builder.node({"type": "string", "pattern": pattern}, (*path, pattern))
    value = builder.node(value_schema, (*path, pattern))
    return None if value == NEVER else sequence(key, COLON, value)


def _of_members(
    builder: "SchemaBuilder", members: list[Member], other: Node | None, *, is_filled: bool
) -> Node:
    inner, may_be_empty = in_order(builder, members, COMMA, other)
    some = object_of(inner)
    return choice(object_of(EMPTY), some) if may_be_empty and not is_filled else some


def _with_listed_names(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """Names that `propertyNames` lists are properties like others, where no others are named."""
    said = schema.get("propertyNames")
    if not isinstance(said, Mapping) or schema.get("properties"):
        return schema
    said = cast("Mapping[str, Any]", said)
    names = said.get("enum")
    if not isinstance(names, list) or asserts(said, but=("enum", "type")):
        return schema
    others = schema.get("additionalProperties", True)
    listed = [name for name in cast("list[Any]", names) if isinstance(name, str)]
    rest = {key: value for key, value in schema.items() if key != "propertyNames"}
    if schema.get("patternProperties") or said.get("type", "string") != "string":
        return schema
    return {**rest, "properties": dict.fromkeys(listed, others), "additionalProperties": False}


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
