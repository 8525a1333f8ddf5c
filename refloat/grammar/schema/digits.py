"""Numbers between bounds as grammars of their digits. Exact."""

from collections.abc import Callable
from decimal import Decimal

from refloat.grammar.json_text import DIGIT, DIGITS, NONZERO
from refloat.grammar.nodes import (
    EMPTY,
    NEVER,
    Literal,
    Node,
    Repeat,
    char_class,
    choice,
    optional,
    repeat,
    sequence,
)

_POINT = Literal(".")
_MINUS = Literal("-")
_ZERO = Literal("0")
_FRACTION = 24
"""Most digits behind the point of a number between bounds."""


def integers_between(low: int | None, high: int | None) -> Node:
    """Whole numbers from `low` to `high`, both included; `None`: no bound."""
    if low is not None and high is not None and low > high:
        return NEVER
    options: list[Node] = []
    if low is None or low < 0:
        least = 1 if high is None or high >= 0 else -high
        options.append(sequence(_MINUS, _naturals(least, None if low is None else -low)))
    if high is None or high >= 0:
        options.append(_naturals(0 if low is None else max(low, 0), high))
    return choice(*options)


def decimals_between(
    low: Decimal | None, low_out: bool, high: Decimal | None, high_out: bool
) -> Node:
    """Numbers without an exponent between bounds, which are themselves excluded where said."""
    if (
        low is not None
        and high is not None
        and (low > high or (low == high and (low_out or high_out)))
    ):
        return NEVER
    options: list[Node] = []
    if low is None or low < 0:
        near, near_out = (Decimal(0), True) if high is None or high >= 0 else (-high, high_out)
        far = None if low is None else -low
        options.append(sequence(_MINUS, _positive(near, near_out, far, low_out)))
    if high is None or high > 0 or (high == 0 and not high_out):
        near, near_out = (low, low_out) if low is not None and low >= 0 else (Decimal(0), False)
        options.append(_positive(near, near_out, high, high_out))
    return choice(*options)


def _naturals(low: int, high: int | None) -> Node:
    if high is not None and low > high:
        return NEVER
    options: list[Node] = []
    last = len(str(low)) if high is None else len(str(high))
    for length in range(len(str(low)), last + 1):
        least = max(low, 10 ** (length - 1) if length > 1 else 0)
        most = 10**length - 1 if high is None else min(high, 10**length - 1)
        options.append(_same_length(str(least), str(most)))
    if high is None:
        options.append(sequence(NONZERO, repeat(DIGIT, last, DIGITS - 1)))
    return choice(*options)


def _same_length(low: str, high: str) -> Node:
    def behind(at: int, on_low: bool, on_high: bool) -> Node:
        left = len(low) - at
        if left == 0:
            return EMPTY
        if _is_free(low[at:], high[at:], on_low, on_high):
            return repeat(DIGIT, left, left)
        return _next_digit(
            low[at] if on_low else "0",
            high[at] if on_high else "9",
            lambda is_low, is_high: behind(at + 1, on_low and is_low, on_high and is_high),
        )

    return behind(0, True, True)


def _is_free(low: str, high: str, on_low: bool, on_high: bool) -> bool:
    return (not on_low or not low.strip("0")) and (not on_high or not high.strip("9"))


def _next_digit(low: str, high: str, behind: Callable[[bool, bool], Node]) -> Node:
    """A digit from `low` to `high` and what follows, by whether it is one of the two."""
    first, last = ord(low), ord(high)
    if first > last:
        return NEVER
    if first == last:
        return sequence(Literal(low), behind(True, True))
    groups = [(first, first, behind(True, False))]
    if last > first + 1:
        groups.append((first + 1, last - 1, behind(False, False)))
    groups.append((last, last, behind(False, True)))
    joined = groups[:1]
    for start, end, follows in groups[1:]:
        if joined[-1][2] == follows:
            joined[-1] = (joined[-1][0], end, follows)
        else:
            joined.append((start, end, follows))
    return choice(*(sequence(char_class(((s, e),)), follows) for s, e, follows in joined))


def _positive(low: Decimal, low_out: bool, high: Decimal | None, high_out: bool) -> Node:
    """From `low`, 0 or more, to `high`."""
    low_whole, low_digits = _split(low)
    if high is None:
        at_low = _with_fraction(low_whole, low_digits, low_out, None, False)
        above = sequence(_naturals(low_whole + 1, None), _any_fraction())
        return choice(at_low, above)
    high_whole, high_digits = _split(high)
    if low_whole == high_whole:
        return _with_fraction(low_whole, low_digits, low_out, high_digits, high_out)
    return choice(
        _with_fraction(low_whole, low_digits, low_out, None, False),
        sequence(_naturals(low_whole + 1, high_whole - 1), _any_fraction()),
        _with_fraction(high_whole, "", False, high_digits, high_out),
    )


def _split(value: Decimal) -> tuple[int, str]:
    whole, _, digits = f"{value:f}".partition(".")
    return int(whole), digits.rstrip("0")


def _any_fraction() -> Node:
    return optional(sequence(_POINT, repeat(DIGIT, 1, _FRACTION)))


def _with_fraction(whole: int, low: str, low_out: bool, high: str | None, high_out: bool) -> Node:
    """A whole number and a fraction from `low` to `high`, each without zeros at the end."""
    width = max(_FRACTION, len(low) + 1, len(high or "") + 1)

    def may_end(at: int, on_low: bool, on_high: bool) -> bool:
        above = not on_low or (len(low) <= at and not low_out)
        below = not on_high or high is None or len(high) > at or not high_out
        return above and below

    def behind(at: int, on_low: bool, on_high: bool) -> Node:
        """Digits from place `at` on."""
        left = width - at
        if left == 0:
            return EMPTY if may_end(at, on_low, on_high) else NEVER
        low_digit = (low[at] if at < len(low) else "0") if on_low else "0"
        high_digit = "9" if not on_high or high is None else high[at] if at < len(high) else "0"
        if not on_low and (not on_high or high is None):
            return repeat(DIGIT, 0, left)
        if on_low and at >= len(low) and not low_out and (not on_high or high is None):
            return repeat(DIGIT, 0, left)
        if on_high and high is not None and at >= len(high) and (not on_low or at >= len(low)):
            return repeat(_ZERO, 0, left) if may_end(at, on_low, on_high) else NEVER
        if on_low and at >= len(low) and not on_high:
            return sequence(repeat(_ZERO, 0, left), NONZERO, repeat(DIGIT, 0, left))
        more = _next_digit(
            low_digit,
            high_digit,
            lambda is_low, is_high: behind(at + 1, on_low and is_low, on_high and is_high),
        )
        return optional(more) if may_end(at, on_low, on_high) else more

    digits = behind(0, True, True)
    number = Literal(str(whole))
    options: list[Node] = [number] if may_end(0, True, True) else []
    options.append(sequence(number, _POINT, _not_empty(digits)))
    return choice(*options)


def _not_empty(node: Node) -> Node:
    """The words of a node but the empty one."""
    if isinstance(node, Repeat) and node.least == 0:
        return repeat(node.node, 1, node.most)
    return NEVER if node == EMPTY else node
