"""Combinators: schemas that hold together become one, schemas of which one holds become a list."""

from collections.abc import Mapping
from typing import Any, cast

from refloat.grammar.errors import GrammarError
from refloat.grammar.schema.conjunction import Schema, conjunction
from refloat.grammar.schema.keywords import Path, asserts, refuse_unsupported
from refloat.grammar.schema.pointers import target_of

_NULL = {"type": "null"}


def alternatives(schema: Schema, path: Path, root: Any) -> list[tuple[Any, Path]] | None:
    """Schemas of which one has to hold, without this schema's combinators; `None`: it has none.

    `oneOf` is read as `anyOf`. Raises `GrammarError` for what cannot be put together.
    """
    if schema.get("nullable") is True:
        return [(_without(schema, "nullable"), path), (_NULL, path)]
    if "$ref" in schema:
        rest = _without(schema, "$ref")
        target, _ = target_of(root, str(schema["$ref"]), (*path, "$ref"))
        return [(conjunction(target, rest, path), path)]
    if "allOf" in schema:
        whole: Any = _without(schema, "allOf")
        for index, part in enumerate(_listed(schema, "allOf", path)):
            place = (*path, "allOf", index)
            _check(part, place)
            # A schema that says nothing is left out: the other one stays as it is referred to.
            whole = conjunction(whole, part, place) if asserts_any(whole) else part
        return [(whole, path)]
    for key in ("anyOf", "oneOf"):
        if key in schema:
            return _each(schema, key, path)
    return None


def _check(schema: Any, path: Path) -> None:
    if isinstance(schema, Mapping):
        refuse_unsupported(cast("Schema", schema), path)


def asserts_any(schema: Any) -> bool:
    """Whether a schema restricts values at all."""
    if schema is True:
        return False
    return not isinstance(schema, Mapping) or asserts(cast("Schema", schema))


def _each(schema: Schema, key: str, path: Path) -> list[tuple[Any, Path]]:
    rest = _without(schema, key)
    found: list[tuple[Any, Path]] = []
    for index, option in enumerate(_listed(schema, key, path)):
        place = (*path, key, index)
        found.append((conjunction(rest, option, place) if asserts(rest) else option, place))
    return found


def _listed(schema: Schema, key: str, path: Path) -> list[Any]:
    options = schema[key]
    if not isinstance(options, list) or not options:
        raise GrammarError("a list of schemas is expected", (*path, key))
    return cast("list[Any]", options)


def _without(schema: Schema, key: str) -> Schema:
    return {name: value for name, value in schema.items() if name != key}
