"""JSON itself as rules: values, strings, numbers, and the blanks that are allowed between tokens.

Blanks are bounded, so that a weak model cannot fill its limit with them: one space, or a line's end
and an indent. Behind a colon there may be one space. Numbers are bounded, too, in their digits, so
that whoever reads them gets finite ones.
"""

import json
from typing import Any, cast

from refloat.grammar.nodes import (
    EMPTY,
    LAST_CHAR,
    Literal,
    Node,
    Reference,
    char_class,
    chars,
    choice,
    optional,
    repeat,
    sequence,
)

_INDENT = 32
DIGITS = 40
"""Most of them behind one another."""
_CONTROL = (0, 0x1F)
#: Characters that have a short escape, and its letter.
SHORT_ESCAPES = {'"': '"', "\\": "\\", "\b": "b", "\f": "f", "\n": "n", "\r": "r", "\t": "t"}

DIGIT = char_class(((0x30, 0x39),))
NONZERO = char_class(((0x31, 0x39),))
_HEX = char_class(((0x30, 0x39), (0x41, 0x46), (0x61, 0x66)))
PLAIN = char_class(((0x20, 0x21), (0x23, 0x5B), (0x5D, LAST_CHAR)))
"""Characters that stand for themselves in a string."""

CHAR_ESCAPES = chars('"\\/bfnrt')
"""What may stand behind a backslash, beside a number."""

GAP = Reference("json_gap")
CHAR = Reference("json_char")
STRING = Reference("json_string")
NUMBER = Reference("json_number")
INTEGER = Reference("json_integer")
OBJECT = Reference("json_object")
ARRAY = Reference("json_array")
VALUE = Reference("json_value")
BOOLEAN = choice(Literal("true"), Literal("false"))
NULL = Literal("null")
COLON = sequence(Literal(":"), optional(Literal(" ")))
COMMA = sequence(Literal(","), GAP)
QUOTE = Literal('"')


def _unicode_escape() -> Node:
    """A character by its number; halves of a pair only together."""
    hex2, hex3 = repeat(_HEX, 2, 2), repeat(_HEX, 3, 3)
    single = choice(
        sequence(
            char_class(((0x30, 0x39), (0x41, 0x43), (0x45, 0x46), (0x61, 0x63), (0x65, 0x66))), hex3
        ),
        sequence(chars("Dd"), char_class(((0x30, 0x37),)), hex2),
    )
    high = sequence(chars("Dd"), chars("89ABab"), hex2)
    low = sequence(Literal("\\u"), chars("Dd"), chars("CDEFcdef"), hex2)
    return sequence(Literal("u"), choice(single, sequence(high, low)))


def _number() -> Node:
    whole = choice(Literal("0"), sequence(NONZERO, repeat(DIGIT, 0, DIGITS - 1)))
    fraction = sequence(Literal("."), repeat(DIGIT, 1, DIGITS))
    exponent = sequence(
        chars("eE"),
        choice(
            sequence(optional(chars("+-")), repeat(DIGIT, 1, 2)),
            sequence(optional(Literal("+")), chars("12"), DIGIT, DIGIT),
            sequence(optional(Literal("+")), Literal("30"), char_class(((0x30, 0x37),))),
            sequence(Literal("-"), chars("123"), DIGIT, DIGIT),
        ),
    )
    return sequence(
        optional(Literal("-")),
        choice(
            sequence(whole, optional(fraction)),
            sequence(DIGIT, optional(fraction), exponent),
        ),
    )


def spelled(char: str) -> Node:
    """A character as it stands in a string."""
    if char in SHORT_ESCAPES:
        return Literal("\\" + SHORT_ESCAPES[char])
    return Literal(char) if char in PLAIN else Literal(f"\\u{ord(char):04x}")


def object_of(members: Node) -> Node:
    """Braces around members, which may be nothing."""
    return _enclosed("{", members, "}")


def array_of(items: Node) -> Node:
    """Brackets around items, which may be nothing."""
    return _enclosed("[", items, "]")


def _enclosed(opens: str, inner: Node, closes: str) -> Node:
    if inner == EMPTY:
        return sequence(Literal(opens), GAP, Literal(closes))
    return sequence(Literal(opens), GAP, inner, GAP, Literal(closes))


def several(item: Node, least: int, most: int | None) -> Node:
    """Items with commas between them."""
    if most is not None and most <= 0:
        return EMPTY
    rest = None if most is None else most - 1
    some = sequence(item, repeat(sequence(COMMA, item), max(0, least - 1), rest))
    return some if least else optional(some)


RULES: dict[str, Node] = {
    "json_gap": choice(
        EMPTY, Literal(" "), sequence(Literal("\n"), repeat(Literal(" "), 0, _INDENT))
    ),
    "json_char": choice(PLAIN, sequence(Literal("\\"), choice(CHAR_ESCAPES, _unicode_escape()))),
    "json_string": sequence(QUOTE, repeat(CHAR), QUOTE),
    "json_integer": sequence(
        optional(Literal("-")),
        choice(Literal("0"), sequence(NONZERO, repeat(DIGIT, 0, DIGITS - 1))),
    ),
    "json_number": _number(),
    "json_object": choice(
        sequence(Literal("{"), GAP, Literal("}")),
        object_of(several(sequence(STRING, COLON, VALUE), 1, None)),
    ),
    "json_array": choice(
        sequence(Literal("["), GAP, Literal("]")), array_of(several(VALUE, 1, None))
    ),
    "json_value": choice(OBJECT, ARRAY, STRING, NUMBER, BOOLEAN, NULL),
}
"""By which every grammar of JSON text is completed."""


def constant(value: Any) -> Node:
    """Exactly this value, however it is spaced; strings plain or with all but ASCII escaped."""
    if isinstance(value, dict):
        members = cast("dict[str, Any]", value)
        pairs = [sequence(constant(key), COLON, constant(item)) for key, item in members.items()]
        return object_of(_in_order(pairs))
    if isinstance(value, list):
        return array_of(_in_order([constant(item) for item in cast("list[Any]", value)]))
    plain, escaped = json.dumps(value, ensure_ascii=False), json.dumps(value)
    return choice(Literal(plain), Literal(escaped))


def _in_order(items: list[Node]) -> Node:
    parts: list[Node] = []
    for item in items:
        parts += (COMMA, item) if parts else (item,)
    return sequence(*parts)
