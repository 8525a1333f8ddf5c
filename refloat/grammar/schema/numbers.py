"""Numbers: any, or between bounds, digit by digit."""

from collections.abc import Mapping
from decimal import Decimal
from typing import Any, NamedTuple

from refloat.grammar.errors import GrammarError
from refloat.grammar.json_text import INTEGER, NUMBER
from refloat.grammar.nodes import Node
from refloat.grammar.schema.digits import decimals_between, integers_between
from refloat.grammar.schema.formats import FORMATS
from refloat.grammar.schema.keywords import Path

_WIDTHS = (8, 16, 32, 64)
_SIZED = {
    **{f"int{bits}": (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) for bits in _WIDTHS},
    **{f"uint{bits}": (0, 2**bits - 1) for bits in _WIDTHS},
}
#: Say how a number is kept, not which ones there are.
_PRECISIONS = ("float", "double", "decimal")


class _Bounds(NamedTuple):
    least: Decimal | None
    least_excluded: bool
    most: Decimal | None
    most_excluded: bool


def integer_node(schema: Mapping[str, Any], path: Path) -> Node:
    """Whole numbers. Raises `GrammarError`."""
    least, least_out, most, most_out = _bounds(schema, path)
    low = None if least is None else _ceil(least) + (least_out and least == _ceil(least))
    high = None if most is None else _floor(most) - (most_out and most == _floor(most))
    size = _SIZED.get(_format(schema, path))
    if size is not None:
        low = size[0] if low is None else max(low, size[0])
        high = size[1] if high is None else min(high, size[1])
    if low is None and high is None:
        return INTEGER
    return integers_between(low, high)


def number_node(schema: Mapping[str, Any], path: Path) -> Node:
    """Numbers with or without a fraction. Between bounds they have no exponent."""
    if _format(schema, path) in _SIZED:
        raise GrammarError("this format is for integers", (*path, "format"))
    found = _bounds(schema, path)
    if found.least is None and found.most is None:
        return NUMBER
    return decimals_between(*found)


def _format(schema: Mapping[str, Any], path: Path) -> str:
    """The format of numbers; empty if there is none. Raises `GrammarError` for an unknown one."""
    name = schema.get("format")
    if name is None or name in _PRECISIONS or (isinstance(name, str) and name in FORMATS):
        return ""
    if not isinstance(name, str) or name not in _SIZED:
        raise GrammarError("this format is not supported", (*path, "format"))
    return name


def _bounds(schema: Mapping[str, Any], path: Path) -> _Bounds:
    multiple = schema.get("multipleOf")
    if multiple is not None and not (multiple == 1 and schema.get("type") == "integer"):
        raise GrammarError("multipleOf is not supported", (*path, "multipleOf"))
    least, least_excluded = _bound(schema, "minimum", "exclusiveMinimum", path, 1)
    most, most_excluded = _bound(schema, "maximum", "exclusiveMaximum", path, -1)
    return _Bounds(least, least_excluded, most, most_excluded)


def _bound(
    schema: Mapping[str, Any], key: str, excluding_key: str, path: Path, sign: int
) -> tuple[Decimal | None, bool]:
    """The tighter one of two keywords, and whether it is excluded itself. `sign`: 1 for a least."""
    value = _number(schema.get(key), (*path, key))
    excluding = schema.get(excluding_key)
    if isinstance(excluding, bool):  # as the fourth draft had it
        return value, excluding and value is not None
    excluded = _number(excluding, (*path, excluding_key))
    if excluded is None:
        return value, False
    if value is None or (excluded - value) * sign >= 0:
        return excluded, True
    return value, False


def _number(value: Any, path: Path) -> Decimal | None:
    if value is None:
        return None
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise GrammarError("a number is expected", path)
    number = Decimal(str(value))
    if not number.is_finite() or abs(number) >= Decimal(10) ** 30:
        raise GrammarError("a number of at most 30 digits is expected", path)
    return number


def _floor(value: Decimal) -> int:
    return int(value.to_integral_value("ROUND_FLOOR"))


def _ceil(value: Decimal) -> int:
    return int(value.to_integral_value("ROUND_CEILING"))
