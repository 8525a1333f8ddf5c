"""Two schemas that hold together, as one. What lies deeper stays an `allOf` until it is needed."""

import json
from collections.abc import Callable, Mapping
from typing import Any, cast

from refloat.grammar.errors import GrammarError
from refloat.grammar.schema.keywords import ASSERTIONS, Path, refuse_unsupported, types_of

Schema = Mapping[str, Any]
_MOST_OPTIONS = 64
_LEAST = ("minLength", "minItems", "minProperties", "minimum", "exclusiveMinimum")
_MOST = ("maxLength", "maxItems", "maxProperties", "maximum", "exclusiveMaximum")
_PROPERTIES = ("properties", "additionalProperties")


def conjunction(one: Any, other: Any, path: Path) -> Any:
    """The schema of what both allow. Raises `GrammarError` where that is not known."""
    for first, second in ((one, other), (other, one)):
        if first is True or _same(first, second):
            return second
        if first is False:
            return False
        if not isinstance(first, Mapping):
            raise GrammarError("a schema is an object, true or false", path)
    one, other = cast("Schema", one), cast("Schema", other)
    refuse_unsupported(one, path)
    refuse_unsupported(other, path)
    result = dict(one)
    for key, value in other.items():
        is_clear = key in _PROPERTIES or key not in ASSERTIONS or key not in result
        result[key] = result.get(key, value) if is_clear else _joined(key, one[key], value, path)
    _join_references(one, other, result)
    if not _join_types(one, other, result, path) or not _has_values(one, other, result):
        return False
    _refuse_mixed_items(one, other, path)
    return result | _properties(one, other)


def _joined(key: str, one: Any, other: Any, path: Path) -> Any:
    join = _JOINS.get(key)
    if _same(one, other):
        return one
    if join is None:
        raise GrammarError(f"two different {key} cannot be held together", (*path, key))
    return join(one, other, path)


def _same(one: Any, other: Any) -> bool:
    """Whether two values are the same JSON; for Python 1 is `True`."""
    return one is other or json.dumps(one) == json.dumps(other)


def _has_values(one: Schema, other: Schema, result: Schema) -> bool:
    """Whether any listed value is left, where values are listed."""
    if "const" in one and "const" in other and not _same(one["const"], other["const"]):
        return False
    return result.get("enum") != []


def _join_types(one: Schema, other: Schema, result: dict[str, Any], path: Path) -> bool:
    """Whether any type is left."""
    if "type" not in one or "type" not in other:
        return True
    first, second = types_of(one, path), types_of(other, path)
    left = [n for n in first if n in second or (n == "integer" and "number" in second)]
    left += [n for n in second if n == "integer" and "number" in first]
    result["type"] = left
    return bool(left)


def _join_references(one: Schema, other: Schema, result: dict[str, Any]) -> None:
    if "$ref" in one and "$ref" in other and one["$ref"] != other["$ref"]:
        result["$ref"] = one["$ref"]
        result["allOf"] = [*(result.get("allOf") or []), {"$ref": other["$ref"]}]


def _refuse_mixed_items(one: Schema, other: Schema, path: Path) -> None:
    for first, second in ((one, other), (other, one)):
        if "prefixItems" in first and "items" in second and "prefixItems" not in second:
            raise GrammarError("prefixItems and items cannot be held together", (*path, "items"))


def _properties(one: Schema, other: Schema) -> dict[str, Any]:
    """Each property as both see it: where one does not name it, it is an additional one there."""
    names = dict.fromkeys([*one.get("properties", {}), *other.get("properties", {})])
    result: dict[str, Any] = {}
    if "properties" in one or "properties" in other:
        result["properties"] = {
            name: _both(_property(one, name), _property(other, name)) for name in names
        }
    said = [s["additionalProperties"] for s in (one, other) if "additionalProperties" in s]
    if said:
        result["additionalProperties"] = _both(said[0], said[-1])
    return result


def _property(schema: Schema, name: str) -> Any:
    properties = schema.get("properties", {})
    return properties[name] if name in properties else schema.get("additionalProperties", True)


def _both(one: Any, other: Any) -> Any:
    if one is True or _same(one, other):
        return other
    if other is True:
        return one
    return False if one is False or other is False else {"allOf": [one, other]}


def _enum(one: Any, other: Any, path: Path) -> Any:
    if not isinstance(one, list) or not isinstance(other, list):
        raise GrammarError("a list of values is expected", (*path, "enum"))
    return [
        value
        for value in cast("list[Any]", one)
        if any(_same(value, item) for item in cast("list[Any]", other))
    ]


def _required(one: Any, other: Any, path: Path) -> Any:
    if not isinstance(one, list) or not isinstance(other, list):
        raise GrammarError("a list of names is expected", (*path, "required"))
    return list(dict.fromkeys([*cast("list[Any]", one), *cast("list[Any]", other)]))


def _options(one: Any, other: Any, path: Path) -> Any:
    pairs = [{"allOf": [first, second]} for first in one for second in other]
    if len(pairs) > _MOST_OPTIONS:
        raise GrammarError("too many combinations", path)
    return pairs


def _larger(one: Any, other: Any, path: Path) -> Any:
    return max(_plain(one, path), _plain(other, path))


def _smaller(one: Any, other: Any, path: Path) -> Any:
    return min(_plain(one, path), _plain(other, path))


def _plain(value: Any, path: Path) -> Any:
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise GrammarError("a number is expected", path)
    return value


_JOINS: dict[str, Callable[[Any, Any, Path], Any]] = {
    "type": lambda one, _other, _path: one,
    "$ref": lambda one, _other, _path: one,
    "not": lambda one, _other, _path: one,
    "uniqueItems": lambda one, other, _path: one is True or other is True,
    "required": _required,
    "enum": _enum,
    "const": lambda one, _other, _path: one,
    "allOf": lambda one, other, _path: [*one, *other],
    "anyOf": _options,
    "oneOf": _options,
    "items": lambda one, other, _path: _both(one, other),
    **dict.fromkeys(_LEAST, _larger),
    **dict.fromkeys(_MOST, _smaller),
}
