"""The tools that a request declares, as parsers need them: names, and the types of parameters. Pure."""

import ast
import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, cast

from refloat.parsing.partial_json import quoted

#: Longest text that is tried as a Python literal (as some models write lists and mappings).
_MOST_LITERAL_CHARS = 100_000
_MAX_DEPTH = 8
_WORDS = {"true": "true", "false": "false", "none": "null", "null": "null"}
_NUMBER = re.compile(r"-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?")


class DeclaredTools:
    """Tools by name. Immutable; shared by all choices of a request."""

    def __init__(self, tools: Iterable[Mapping[str, Any]]) -> None:
        """`tools` in OpenAI's shape, already checked."""
        self._parameters: dict[str, Mapping[str, Any]] = {}
        for tool in tools:
            function = _mapping(tool.get("function"))
            self._parameters[str(function.get("name"))] = _mapping(function.get("parameters"))

    def resolve(self, name: str) -> str | None:
        """The declared name that a model means; `None` if it means none."""
        name = name.strip()
        for candidate in (name, name.removeprefix("functions.")):
            if candidate in self._parameters:
                return candidate
        return None

    def types_of(self, name: str, parameter: str) -> frozenset[str]:
        """The JSON types that a parameter may have; none: nobody said."""
        schema = self._parameters[name]
        properties = _mapping(schema.get("properties"))
        return _types(_mapping(properties.get(parameter)), schema, 0)

    def has_parameter(self, name: str, parameter: str) -> bool | None:
        """Whether a parameter is declared; `None` if the tool declares none at all."""
        properties = _mapping(self._parameters[name].get("properties"))
        return parameter in properties if properties else None


#: Of a parameter that can be nothing but text.
TEXT_ONLY = frozenset(("string",))


def typed_json(text: str, types: frozenset[str]) -> str:
    """A parameter's bare text as JSON of a type that its schema allows; a string if it fits none."""
    if types == TEXT_ONLY:
        return quoted(text)
    word = text.strip()
    for candidate in _readings(word):
        if not types or _type_of(candidate) in _widened(types):
            return candidate
    return quoted(text)


def _readings(word: str) -> Iterable[str]:
    """JSON texts that a bare text can be read as, the likeliest first."""
    known = _WORDS.get(word.lower())
    if known is not None:
        yield known
    if _NUMBER.fullmatch(word):
        yield word
    if word[:1] in ("{", "["):
        value = _literal(word)
        if value is not None:
            yield value


def _literal(word: str) -> str | None:
    try:
        json.loads(word, parse_constant=_no_number)
    except (ValueError, RecursionError):
        pass
    else:
        return word
    if len(word) > _MOST_LITERAL_CHARS:
        return None
    try:
        text = json.dumps(ast.literal_eval(word), ensure_ascii=False, allow_nan=False)
        text.encode()
        return text
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return None


def _no_number(word: str) -> None:
    """`NaN` and `Infinity` are Python's JSON alone."""
    raise ValueError(word)


def _type_of(raw: str) -> str:
    first = raw[:1]
    if first in '{["':
        return {"{": "object", "[": "array", '"': "string"}[first]
    if raw in ("true", "false"):
        return "boolean"
    if raw == "null":
        return "null"
    return "number" if re.search(r"[.eE]", raw) else "integer"


def _widened(types: frozenset[str]) -> frozenset[str]:
    return types | {"integer"} if "number" in types else types


def _types(schema: Mapping[str, Any], root: Mapping[str, Any], depth: int) -> frozenset[str]:
    if depth > _MAX_DEPTH:
        return frozenset()
    target = _target(schema.get("$ref"), root)
    if target is not None:
        return _types(target, root, depth + 1)
    said = schema.get("type")
    if isinstance(said, str):
        said = [said]
    if isinstance(said, list):
        return frozenset(str(entry).lower() for entry in cast("list[Any]", said))
    if "const" in schema:
        return _types_of_values([schema["const"]])
    if isinstance(schema.get("enum"), list):
        return _types_of_values(cast("list[Any]", schema["enum"]))
    return _combined(schema, root, depth)


def _combined(schema: Mapping[str, Any], root: Mapping[str, Any], depth: int) -> frozenset[str]:
    found: frozenset[str] = frozenset()
    for key in ("anyOf", "oneOf", "allOf"):
        options = schema.get(key)
        if isinstance(options, list):
            for option in cast("list[Any]", options):
                found |= _types(_mapping(option), root, depth + 1)
    if not found and "properties" in schema:
        return frozenset(("object",))
    return found


def _types_of_values(values: list[Any]) -> frozenset[str]:
    return frozenset(_type_of(json.dumps(value)) for value in values)


def _target(reference: Any, root: Mapping[str, Any]) -> Mapping[str, Any] | None:
    if not isinstance(reference, str) or not reference.startswith("#/"):
        return None
    found: Any = root
    for key in reference[2:].split("/"):
        found = _mapping(found).get(key.replace("~1", "/").replace("~0", "~"))
    return _mapping(found)


def _mapping(value: Any) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}
