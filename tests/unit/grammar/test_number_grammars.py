"""Numbers between bounds: every number near the bounds is told right."""

import itertools
from decimal import Decimal

import pytest

from refloat.grammar.json_schema import from_json_schema
from refloat.grammar.residual import matches

_BOUNDS = [None, -101, -100, -10, -1, 0, 1, 9, 10, 99, 105]


@pytest.mark.parametrize(
    ("low", "high"),
    [(a, b) for a, b in itertools.product(_BOUNDS, _BOUNDS) if a is None or b is None or a <= b][
        ::3
    ],
)
def test_integers_between_bounds_are_exact(low: int | None, high: int | None) -> None:
    schema = {"type": "integer"}
    schema |= {} if low is None else {"minimum": low}
    schema |= {} if high is None else {"maximum": high}
    grammar = from_json_schema(schema)
    for number in (*range(-12, 12), -1000, -102, -101, -100, -99, 98, 99, 100, 104, 105, 106, 999):
        fits = (low is None or low <= number) and (high is None or number <= high)
        assert matches(grammar, str(number)) == fits, number


@pytest.mark.parametrize(
    ("low", "low_out", "high", "high_out"),
    [
        ("0", False, "1", False),
        ("0", True, "1", True),
        ("-1.5", False, "2.25", True),
        ("0.105", True, "0.11", False),
        ("-0.3", True, None, False),
        (None, False, "-0.25", False),
        ("9.99", False, "10.01", True),
        ("-20", False, "-3.3", True),
    ],
)
def test_decimals_between_bounds_are_exact(
    low: str | None, low_out: bool, high: str | None, high_out: bool
) -> None:
    schema: dict[str, object] = {"type": "number"}
    if low is not None:
        schema["exclusiveMinimum" if low_out else "minimum"] = float(low)
    if high is not None:
        schema["exclusiveMaximum" if high_out else "maximum"] = float(high)
    grammar = from_json_schema(schema)
    wholes = (-21, -20, -19, -4, -3, -2, -1, 0, 1, 2, 9, 10, 11)
    for whole, digits in itertools.product(wholes, ("", "0", "00", "1", "10", "105", "1050", "11")):
        for text in (f"{whole}.{digits}" if digits else str(whole), f"-0.{digits or '0'}"):
            value = Decimal(text)
            above = low is None or value > Decimal(low) or (value == Decimal(low) and not low_out)
            below = (
                high is None or value < Decimal(high) or (value == Decimal(high) and not high_out)
            )
            if value == 0 and text.startswith("-"):
                continue  # minus nothing may or may not be allowed; it is nothing
            assert matches(grammar, text) == (above and below), text
