"""From bytes to a typed body, and from msgspec's complaints to ours: 400s that name the field."""

import re
from collections.abc import Iterator
from typing import Any, TypeVar

import msgspec

from refloat.api.errors import invalid
from refloat.wire.problem import ProblemError

#: Levels of lists and objects in the free-form parts of a body (tools, schemas, template arguments).
MAX_NESTING = 100

T = TypeVar("T")

_COMPLAINT = re.compile(r"^(?P<what>.*?)(?: - at `(?:key` in `)?\$(?P<path>.*)`)?$", re.DOTALL)
_MISSING = re.compile(r"^Object missing required field `(?P<name>[^`]+)`$")


def decode_body(data: bytes, decoder: msgspec.json.Decoder[T]) -> T:
    """The body as its struct. Raises `ProblemError` naming the field as the caller spells it."""
    _check_text(data)
    try:
        return decoder.decode(data)
    except msgspec.ValidationError as error:
        raise _explain(str(error)) from None
    except msgspec.DecodeError as error:
        raise invalid(f"The request body is not valid JSON: {error}.", None) from None
    except RecursionError:
        raise invalid("The request body is nested too deeply.", None) from None


def decode_value(value: Any, kind: type[T], where: str) -> T:
    """A part of a body that was decoded before, as its struct. Raises `ProblemError`."""
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise _explain(str(error), where) from None


def check_nesting(value: Any, param: str, limit: int = MAX_NESTING) -> None:
    """Refuse a free-form value with more than `limit` levels. Raises `ProblemError`."""
    for _ in _levels(value, param, limit):
        pass


def check_free_form(value: Any, param: str) -> None:
    """Refuse a free-form value that cannot be handed on: too deep, or with whole numbers that do not
    fit into 64 bits. Raises `ProblemError`."""
    for level in _levels(value, param, MAX_NESTING):
        if any(type(one) is int and not -(2**63) <= one < 2**64 for one in level):
            raise invalid(f"{param} holds a whole number of more than 64 bits.", param)


def _levels(value: Any, param: str, limit: int) -> Iterator[list[Any]]:
    """All values, level by level. Bodies may hold millions, which nobody else's answers wait for."""
    level: list[Any] = [value]
    for _ in range(limit):
        parents: list[Any] = [one for one in level if type(one) is dict or type(one) is list]
        if not parents:
            return
        level = []
        for parent in parents:
            level += parent.values() if type(parent) is dict else parent
        yield level
    if any(isinstance(one, (dict, list)) for one in level):
        raise invalid(f"{param} is nested more than {limit} levels deep.", param)


def _check_text(data: bytes) -> None:
    if not data.strip():
        raise invalid("The request body is empty; send a JSON object.", None)
    if data.startswith(b"\xef\xbb\xbf"):
        message = "The request body begins with a byte order mark; send plain UTF-8."
        raise invalid(message, None)
    if data.isascii():
        return
    try:
        str(data, "utf-8")  # fields we don't know are skipped unread by the decoder
    except UnicodeDecodeError as error:
        message = f"The request body is not valid UTF-8 (byte {error.start})."
        raise invalid(message, None) from None


def _explain(complaint: str, within: str = "") -> ProblemError:
    match = _COMPLAINT.match(complaint)
    assert match is not None
    what, path = match["what"], match["path"] or ""
    param = within + path.replace("[...]", "")
    param = param.lstrip(".")
    missing = _MISSING.match(what)
    if missing is not None:
        name = missing["name"]
        param = f"{param}.{name}" if param else name
        return invalid(f"Missing required field {param!r}.", param)
    if not param:
        message = f"The request body has to be a JSON object: {_lowered(what)}."
        return invalid(message, None)
    return invalid(f"Invalid value for {param!r}: {_lowered(what)}.", param)


def _lowered(text: str) -> str:
    return text[:1].lower() + text[1:].replace("`", "").replace(" | null", "")
