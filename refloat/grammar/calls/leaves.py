"""A parameter's schema as alternatives that each have one type, for formats that are not JSON."""

from collections.abc import Mapping
from typing import Any, NamedTuple, cast

from refloat.grammar.errors import GrammarError
from refloat.grammar.schema.builder import SchemaBuilder
from refloat.grammar.schema.keywords import ASSERTIONS, Path, asserts, refuse_unsupported, types_of
from refloat.grammar.schema.merging import alternatives
from refloat.grammar.schema.objects import restricts_names
from refloat.grammar.schema.pointers import target_of

_MOST_DEPTH = 20


class Leaf(NamedTuple):
    """One alternative."""

    kind: str
    """A type, `any`, or `listed` for values that are named."""
    schema: Mapping[str, Any]
    path: Path

    @property
    def is_bare(self) -> bool:
        """Nothing but its type is asked for."""
        return self.kind == "any" or (
            self.kind != "listed" and (ASSERTIONS & self.schema.keys()) <= {"type"}
        )


def leaves(builder: SchemaBuilder, schema: Any, path: Path, depth: int = 0) -> list[Leaf]:
    """All alternatives of a schema, in order. Raises `GrammarError`."""
    if depth > _MOST_DEPTH:
        raise GrammarError("nested too deep", path)
    if schema is True:
        return [Leaf("any", {}, path)]
    if schema is False:
        return []
    if not isinstance(schema, Mapping):
        raise GrammarError("a schema is an object, true or false", path)
    schema = cast("Mapping[str, Any]", schema)
    refuse_unsupported(schema, path)
    if "not" in schema:
        return []
    options = _options(builder, schema, path)
    if options is not None:
        return [leaf for option in options for leaf in leaves(builder, *option, depth + 1)]
    if "enum" in schema or "const" in schema:
        return [Leaf("listed", schema, path)]
    types = types_of(schema, path)
    if not types:
        return [Leaf("any", schema, path)]
    return [Leaf(kind, {**schema, "type": kind}, path) for kind in types]


def _options(
    builder: SchemaBuilder, schema: Mapping[str, Any], path: Path
) -> list[tuple[Any, Path]] | None:
    if "$ref" in schema and not asserts(schema, but=("$ref",)):
        return [target_of(builder.root, str(schema["$ref"]), (*path, "$ref"))]
    return alternatives(schema, path, builder.root)


def one_object(builder: SchemaBuilder) -> tuple[Mapping[str, Any], list[str], Path]:
    """Properties and required names of a tool's parameters. Raises `GrammarError`."""
    found = leaves(builder, builder.root, ())
    if len(found) != 1 or found[0].kind not in ("object", "any"):
        raise GrammarError("parameters have to be one object in this model's format of calls")
    schema, path = found[0].schema, found[0].path
    if restricts_names(schema):
        raise GrammarError(
            "not supported in this model's format of calls", (*path, "propertyNames")
        )
    properties = schema.get("properties", {})
    names = schema.get("required", [])
    if not isinstance(properties, Mapping) or not isinstance(names, list):
        raise GrammarError("properties are an object, required ones a list of names", path)
    properties = cast("Mapping[str, Any]", properties)
    required = [str(name) for name in cast("list[Any]", names)]
    missing = {name: True for name in required if name not in properties}
    return {**properties, **missing}, required, (*path, "properties")
