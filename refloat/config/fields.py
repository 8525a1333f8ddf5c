"""The schema's fields as data: name, default, what a right value is, and how text becomes one.

`--help`, the environment and error messages are all made from here, so no setting is spelt twice.
"""

import difflib
import json
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args, get_type_hints

import msgspec
from msgspec import inspect, structs

from refloat.config.schema import ModelConfig, ServerConfig

Section = Literal["server", "model"]

ENV_PREFIX = "REFLOAT_"

_SHOWN_CHARACTERS = 60
_TRUE = frozenset({"1", "true", "yes", "on"})
_FALSE = frozenset({"0", "false", "no", "off"})
_WHOLE = re.compile(r"[+-]?\d{1,18}")


class WrongValueError(ValueError):
    """A value that does not fit its field; the message says what would be right."""


@dataclass(frozen=True, slots=True)
class Field:
    """One setting of a server or of a model."""

    key: str
    section: Section
    annotation: Any
    description: str
    default: Any
    """`msgspec.NODEFAULT` for a setting that must be given."""

    @property
    def env(self) -> str:
        """Its environment variable."""
        return ENV_PREFIX + self.key.upper()

    @property
    def flag(self) -> str:
        """Its command line option."""
        return "--" + self.key.replace("_", "-")

    @property
    def expected(self) -> str:
        """What a right value is, for error messages."""
        return describe(inspect.type_info(self.annotation))

    @property
    def is_flag(self) -> bool:
        """Whether it is on or off."""
        return isinstance(self._bare(), inspect.BoolType)

    def convert(self, value: object) -> Any:
        """A decoded value (YAML), checked. Raises `WrongValueError`."""
        try:
            converted = msgspec.convert(value, self.annotation)
        except msgspec.ValidationError:
            raise WrongValueError(f"must be {self.expected}, not {shown(value)}") from None
        if isinstance(converted, float) and not math.isfinite(converted):
            raise WrongValueError(f"must be {self.expected}, not {shown(value)}")
        return converted

    def parse(self, text: str) -> Any:
        """A value from text (environment, command line), checked. Raises `WrongValueError`."""
        if not text.strip():
            raise WrongValueError(f"is empty; it must be {self.expected}, or leave it out")
        try:
            value = _decode(text.strip(), self._bare())
        except ValueError:
            raise WrongValueError(f"must be {self.expected}, not {shown(text)}") from None
        return self.convert(value)

    def _bare(self) -> inspect.Type:
        return _without_none(_without_metadata(inspect.type_info(self.annotation)))


def shown(value: object) -> str:
    """A value as error messages show it: short, and never more than one line."""
    text = repr(value)
    return text if len(text) <= _SHOWN_CHARACTERS else text[:_SHOWN_CHARACTERS] + "…"


def nearest(key: str, known: Iterable[str]) -> str | None:
    """The known key that was probably meant, if one is near."""
    by_folded = {name.lower().replace("-", "_"): name for name in known}
    folded = key.lower().replace("-", "_")
    found = difflib.get_close_matches(folded, by_folded, n=1, cutoff=0.55)
    return by_folded[found[0]] if found else None


def describe(info: inspect.Type) -> str:
    """A type in words, as the object of "must be"."""
    bare = _without_none(_without_metadata(info))
    match bare:
        case inspect.BoolType():
            return "true or false"
        case inspect.IntType():
            return "a whole number" + _range(bare)
        case inspect.FloatType():
            return "a number" + _range(bare)
        case inspect.LiteralType(values=values):
            return "one of " + ", ".join(str(value) for value in values)
        case inspect.ListType(item_type=inspect.StrType()):
            return "a list of texts"
        case inspect.ListType():
            return "a list of mappings"
        case inspect.DictType():
            return "a mapping (a JSON object)"
        case _:
            return "text"


def _range(info: inspect.IntType | inspect.FloatType) -> str:
    if info.ge is not None and info.le is not None:
        return f" from {info.ge} to {info.le}"
    if info.ge is not None:
        return f" of at least {_plain(info.ge)}"
    if info.gt is not None:
        return f" above {_plain(info.gt)}"
    return ""


def _plain(value: float) -> str:
    """A number in full: six digits of a megabyte would be another number."""
    return str(int(value)) if float(value).is_integer() else f"{value:g}"


def _without_metadata(info: inspect.Type) -> inspect.Type:
    return info.type if isinstance(info, inspect.Metadata) else info


def _without_none(info: inspect.Type) -> inspect.Type:
    if isinstance(info, inspect.UnionType):
        rest = [t for t in info.types if not isinstance(t, inspect.NoneType)]
        return _without_metadata(rest[0])
    return info


def _decode(text: str, info: inspect.Type) -> object:
    match info:
        case inspect.BoolType():
            return _decode_flag(text)
        case inspect.IntType():
            if not _WHOLE.fullmatch(text):
                raise ValueError(text)
            return int(text)
        case inspect.FloatType():
            return float(text)
        case inspect.LiteralType(values=values):
            return next((value for value in values if str(value) == text), text)
        case inspect.ListType(item_type=inspect.StrType()) if not text.startswith("["):
            return [part.strip() for part in text.split(",") if part.strip()]
        case inspect.ListType() | inspect.DictType():
            return _decode_json(text)
        case _:
            return text


def _decode_flag(text: str) -> bool:
    folded = text.lower()
    if folded in _TRUE or folded in _FALSE:
        return folded in _TRUE
    raise ValueError(text)


def _decode_json(text: str) -> object:
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _description(annotation: object) -> str:
    for part in get_args(annotation):
        if isinstance(part, msgspec.Meta) and part.description:
            return part.description
        if found := _description(part):
            return found
    return ""


def _fields(struct: type[msgspec.Struct], section: Section) -> dict[str, Field]:
    hints = get_type_hints(struct, include_extras=True)
    found: dict[str, Field] = {}
    for field in structs.fields(struct):
        default: Any = field.default
        if field.default_factory is not msgspec.NODEFAULT:
            default = field.default_factory()
        annotation = hints[field.name]
        found[field.name] = Field(
            field.name, section, annotation, _description(annotation), default
        )
    return found


SERVER_FIELDS: Mapping[str, Field] = _fields(ServerConfig, "server")
MODEL_FIELDS: Mapping[str, Field] = _fields(ModelConfig, "model")
FIELDS: Mapping[str, Field] = {**SERVER_FIELDS, **MODEL_FIELDS}
