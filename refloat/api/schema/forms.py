"""The fields by which a caller says what form an answer has to have, in every dialect, as one wish.

Checked here is their shape; whether a schema or a pattern can be held to is prep's affair.
"""

from collections.abc import Mapping
from typing import Any, cast

import msgspec

from refloat.api.errors import invalid
from refloat.api.schema.decode import check_nesting, decode_value
from refloat.wire.guide import GuideKind, GuideRequest

MAX_FORM_CHARS = 1 << 20
FORMATS = ("text", "json_object", "json_schema")
#: vLLM's fields, and by which names they stand in `structured_outputs`.
GUIDED_FIELDS: Mapping[str, str] = {
    "guided_json": "json",
    "guided_regex": "regex",
    "guided_choice": "choice",
    "guided_grammar": "grammar",
}

_encode = msgspec.json.Encoder().encode


class NamedSchema(msgspec.Struct):
    """A schema as `response_format` has it."""

    schema: Any = None
    name: str | None = None
    description: str | None = None
    strict: bool | None = None


class Format(msgspec.Struct):
    """The form of an answer's text. Whether it is called strict makes no difference: it is held to."""

    type: str
    json_schema: NamedSchema | None = None
    """In `response_format`; the other dialects have the schema itself in its place."""
    schema: Any = None
    name: str | None = None
    strict: bool | None = None


class StructuredOutputs(msgspec.Struct):
    """vLLM's newer spelling of its own fields."""

    json: Any = None
    regex: str | None = None
    choice: list[str] | None = None
    grammar: str | None = None
    json_object: bool | None = None


def wish_of(*wishes: GuideRequest | None) -> GuideRequest | None:
    """The one wish among these. Raises `ProblemError` for several."""
    found = [wish for wish in wishes if wish is not None]
    if len(found) > 1:
        first, second = found[0].param, found[1].param
        raise invalid(f"{first} and {second} exclude each other.", second)
    return found[0] if found else None


def format_wish(value: Any, where: str, *, is_nested: bool = False) -> GuideRequest | None:
    """Of `response_format` (`is_nested`) or what other dialects have for it. Raises `ProblemError`."""
    if value is None:
        return None
    form = decode_value(value, Format, where)
    match form.type:
        case "text":
            return None
        case "json_object":
            return GuideRequest(GuideKind.JSON_OBJECT, param=where)
        case "json_schema":
            schema, param = form.schema, f"{where}.schema"
            if is_nested:
                param = f"{where}.json_schema.schema"
                schema = None if form.json_schema is None else form.json_schema.schema
            if schema is None:
                raise invalid(f"Missing required field {param!r}.", param)
            return _schema_wish(schema, param)
        case _:
            message = f"{where}.type has to be one of {', '.join(FORMATS)}."
            raise invalid(message, f"{where}.type")


def guided_wish(body: Any) -> GuideRequest | None:
    """Of vLLM's fields. Raises `ProblemError`."""
    wishes = [
        _plain_wish(kind, getattr(body, field), field) for field, kind in GUIDED_FIELDS.items()
    ]
    where = "structured_outputs"
    if body.structured_outputs is not None:
        outputs = decode_value(body.structured_outputs, StructuredOutputs, where)
        wishes += [
            _plain_wish(kind, getattr(outputs, kind), f"{where}.{kind}")
            for kind in GUIDED_FIELDS.values()
        ]
        if outputs.json_object:
            wishes.append(GuideRequest(GuideKind.JSON_OBJECT, param=f"{where}.json_object"))
        if not any(wishes) and outputs.json_object is None:
            names = ", ".join((*GUIDED_FIELDS.values(), "json_object"))
            raise invalid(f"{where} names no form; it would be one of {names}.", where)
    return wish_of(*wishes)


def calls_wish(
    tools: list[dict[str, Any]] | None, param: str, *, named: str | None, single: bool
) -> GuideRequest:
    """A call at least, of the named function if there is one, which is called once. Raises
    `ProblemError`."""
    names = {tool["function"]["name"] for tool in tools or ()}
    if not names:
        raise invalid(f"{param} needs at least one tool in tools.", "tools")
    if named is not None and named not in names:
        raise invalid(f"{param} names {named[:64]!r}, which is not in tools.", param)
    single = single or named is not None
    return GuideRequest(GuideKind.CALLS, _text(tools, param), param, named=named, single=single)


def strict_wish(tools: list[dict[str, Any]] | None, *, single: bool) -> GuideRequest | None:
    """Any text, and calls as they are declared if the model makes any: asked for by a strict one among
    the tools that it may call. Raises `ProblemError`."""
    if not any(tool["function"].get("strict") for tool in tools or ()):
        return None
    return GuideRequest(GuideKind.TEXT_OR_CALLS, _text(tools, "tools"), "tools", single=single)


def _plain_wish(kind: str, value: Any, param: str) -> GuideRequest | None:
    if value is None:
        return None
    match kind:
        case "json":
            return _schema_wish(_read(value, param), param)
        case "regex":
            return GuideRequest(GuideKind.REGEX, _bounded(value, param), param)
        case "choice":
            return GuideRequest(GuideKind.CHOICE, _text(value, param), param)
        case _:
            return GuideRequest(GuideKind.GRAMMAR, _bounded(value, param), param)


def _read(value: Any, param: str) -> Any:
    """vLLM takes a schema as text, too."""
    if not isinstance(value, str):
        return value
    try:
        return msgspec.json.decode(_bounded(value, param))
    except msgspec.DecodeError as error:
        raise invalid(f"{param} is not valid JSON: {error}.", param) from None
    except RecursionError:
        raise invalid(f"{param} is nested too deeply.", param) from None


def _schema_wish(schema: Any, param: str) -> GuideRequest:
    if not isinstance(schema, dict | bool):
        raise invalid(f"{param} has to be a JSON schema, which is an object.", param)
    check_nesting(cast("object", schema), param)
    return GuideRequest(GuideKind.JSON_SCHEMA, _text(schema, param), param)


def _text(value: Any, param: str) -> str:
    return _bounded(_encode(value).decode(), param)


def _bounded(text: str, param: str) -> str:
    if len(text) > MAX_FORM_CHARS:
        raise invalid(f"{param} may have {MAX_FORM_CHARS} characters at most.", param)
    return text
