"""`/openapi.json`: OpenAPI 3.1, made from the route list and the structs that decode and encode."""

import re
from collections.abc import Sequence
from typing import Any

import msgspec

from refloat.api.routes import Operation

_REF = "#/components/schemas/{name}"
_PATH_PARAM = re.compile(r"\{(\w+)(?::\w+)?\}")


def openapi_document(
    operations: Sequence[Operation], *, version: str, needs_key: bool, open_paths: frozenset[str]
) -> dict[str, Any]:
    """The whole document."""
    types = [t for o in operations for t in (o.takes, o.gives, o.streams, o.fails) if t is not None]
    schemas, components = msgspec.json.schema_components(types, ref_template=_REF)
    schema_of = dict(zip(map(_key, types), schemas, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for operation in operations:
        item = paths.setdefault(_PATH_PARAM.sub(r"{\1}", operation.path), {})
        described = _describe(operation, schema_of)
        if needs_key and operation.path not in open_paths:
            described["security"] = [{"bearer": []}]
        item[operation.method.lower()] = described
    document: dict[str, Any] = {
        "openapi": "3.1.0",
        "info": {"title": "Refloat", "version": version, "license": {"name": "Apache-2.0"}},
        "paths": paths,
        "components": {"schemas": components},
    }
    if needs_key:
        scheme = {"type": "http", "scheme": "bearer"}
        document["components"]["securitySchemes"] = {"bearer": scheme}
    return document


def _describe(operation: Operation, schema_of: dict[str, Any]) -> dict[str, Any]:
    content = {operation.media_type: {"schema": schema_of[_key(operation.gives)]}}
    if operation.streams is not None:
        content["text/event-stream"] = {"schema": schema_of[_key(operation.streams)]}
    described: dict[str, Any] = {
        "summary": operation.summary,
        "operationId": _operation_id(operation),
        "responses": {
            "200": {"description": operation.summary, "content": content},
            "default": {
                "description": "An error",
                "content": {"application/json": {"schema": schema_of[_key(operation.fails)]}},
            },
        },
    }
    names = _PATH_PARAM.findall(operation.path)
    if names:
        described["parameters"] = [
            {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
            for name in names
        ]
    if operation.takes is not None:
        body = {"application/json": {"schema": schema_of[_key(operation.takes)]}}
        described["requestBody"] = {"required": True, "content": body}
    return described


def _operation_id(operation: Operation) -> str:
    words = re.findall(r"\w+", _PATH_PARAM.sub(r"\1", operation.path))
    return "_".join([operation.method.lower(), *words])


def _key(kind: Any) -> str:
    return str(kind)
