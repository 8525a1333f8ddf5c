"""Which keywords of JSON Schema mean what, which are refused, and which types a schema allows."""

from collections.abc import Iterable, Mapping
from typing import Any, cast

from refloat.grammar.errors import GrammarError

Path = tuple[str | int, ...]

#: Keywords that say something only about values of one type.
OF_TYPE: dict[str, tuple[str, ...]] = {
    "object": (
        *("properties", "required", "additionalProperties", "unevaluatedProperties"),
        *("minProperties", "maxProperties", "propertyNames", "patternProperties"),
    ),
    "array": (
        *("items", "prefixItems", "additionalItems", "unevaluatedItems"),
        *("minItems", "maxItems", "uniqueItems"),
    ),
    "string": ("minLength", "maxLength", "pattern", "format"),
    "number": ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
}
OF_ANY = ("type", "enum", "const", "anyOf", "oneOf", "allOf", "$ref", "nullable", "not")
ASSERTIONS = frozenset(OF_ANY).union(*OF_TYPE.values())
"""What restricts values. All else is an annotation, or refused."""

#: What each of these asks for cannot be held while text is written from left to right.
REFUSED = frozenset(
    (
        *("not", "if", "then", "else", "dependentSchemas"),
        *("dependentRequired", "dependencies", "contains", "minContains", "maxContains"),
        *("$dynamicRef", "$recursiveRef", "$anchor", "$dynamicAnchor"),
        *("extends", "disallow", "divisibleBy"),
    )
)
_LISTS = {
    **dict.fromkeys(("anyOf", "oneOf", "allOf", "prefixItems"), "schemas"),
    "enum": "values",
    "required": "names",
}
_TYPES = ("object", "array", "string", "integer", "number", "boolean", "null")


def refuse_unsupported(schema: Mapping[str, Any], path: Path) -> None:
    """Raises `GrammarError` for a keyword that no grammar can hold, or that is no such keyword's."""
    for key, value in schema.items():
        if key in REFUSED and not (key == "not" and value in ({}, True)):
            raise GrammarError(f"{key} is not supported", (*path, key))
        if key in _LISTS and not (isinstance(value, list) and (value or key == "required")):
            raise GrammarError(f"a list of {_LISTS[key]} is expected", (*path, key))
        if key == "properties" and not isinstance(value, Mapping):
            raise GrammarError("an object is expected", (*path, key))


def asserts(schema: Mapping[str, Any], *, but: Iterable[str] = ()) -> bool:
    """Whether anything but these keywords restricts values."""
    return not (ASSERTIONS & schema.keys()).issubset(but)


def types_of(schema: Mapping[str, Any], path: Path) -> tuple[str, ...]:
    """The types that are allowed, in a fixed order; none: nothing is said.

    Where `type` is missing, keywords that only make sense for a type imply it.
    """
    said = schema.get("type")
    if said is None:
        return tuple(name for name, keys in OF_TYPE.items() if any(key in schema for key in keys))
    names = [said] if isinstance(said, str) else said
    if not isinstance(names, list) or not names:
        raise GrammarError("a type is a name or a list of names", (*path, "type"))
    allowed: list[str] = []
    for name in cast("list[Any]", names):
        if name not in _TYPES:
            raise GrammarError(
                f"there is no such type; there are {', '.join(_TYPES)}", (*path, "type")
            )
        allowed.append(name)
    if "number" in allowed:
        allowed = [name for name in allowed if name != "integer"]
    return tuple(name for name in _TYPES if name in allowed)


def whole_number(schema: Mapping[str, Any], key: str, path: Path) -> int | None:
    """A count that a keyword gives; `None` if it is not there. Raises `GrammarError`."""
    value = schema.get(key)
    if value is None:
        return None
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise GrammarError("a whole number, 0 or more, is expected", (*path, key))
    return value


def bounds(
    schema: Mapping[str, Any], least_key: str, most_key: str, path: Path
) -> tuple[int, int | None]:
    """A least and a most count. Raises `GrammarError`."""
    least = whole_number(schema, least_key, path) or 0
    most = whole_number(schema, most_key, path)
    if most is not None and most < least:
        raise GrammarError(f"less than {least_key}", (*path, most_key))
    return least, most
