"""A grammar as xgrammar's EBNF, with its quirks: escapes, names, empty texts, no empty rules."""

import re
from collections.abc import Mapping

from refloat.grammar.engine_form import engine_form
from refloat.grammar.errors import GrammarError
from refloat.grammar.nodes import (
    CharClass,
    Choice,
    Free,
    Literal,
    Node,
    Reference,
    Repeat,
    Sequence,
)
from refloat.grammar.pruning import pruned

_ROOT = "root"
#: The engine's own word for text without some tags. It can only be the whole of a rule.
FREE_TEXT = "TagDispatch(stop_eos=true, loop_after_dispatch=false, excludes=({}))"
_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
#: The engine reads these as words of its own.
_TAKEN = frozenset[str](
    (
        *("true", "false", "TagDispatch", "Token", "ExcludeToken", "TokenTagDispatch"),
        *("Regex", "Substring", _ROOT),
    )
)
_IN_LITERAL = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
_IN_CLASS = {**{char: "\\" + char for char in "\\]^-["}, "\n": "\\n", "\r": "\\r", "\t": "\\t"}
_LARGEST_BMP = 0xFFFF
_FIRST_SURROGATE, _LAST_SURROGATE = 0xD800, 0xDFFF


def ebnf_text(rules: Mapping[str, Node], start: str) -> str:
    """The rules as text, the first of them `root`. Raises `GrammarError` if no text can match."""
    kept = engine_form(pruned(rules, start), start)
    names = _names(kept, start)
    first = {start: kept[start], **kept}
    return "\n".join(f"{names[name]} ::= {_choices(node, names)}" for name, node in first.items())


def _names(rules: Mapping[str, Node], start: str) -> dict[str, str]:
    names = {start: _ROOT}
    used = set[str](_TAKEN)
    for name in rules:
        if name not in names and _PLAIN_NAME.fullmatch(name) and name not in used:
            names[name] = name
            used.add(name)
    count = 0
    for name in rules:
        while name not in names:
            count += 1
            if f"rule{count}" not in used:
                names[name] = f"rule{count}"
    return names


def _choices(node: Node, names: Mapping[str, str]) -> str:
    if isinstance(node, Choice):
        return " | ".join(_items(option, names) for option in node.options)
    return _items(node, names)


def _items(node: Node, names: Mapping[str, str]) -> str:
    if isinstance(node, Sequence) and node.parts:
        return " ".join(_item(part, names) for part in node.parts)
    return _item(node, names)


def _item(node: Node, names: Mapping[str, str]) -> str:
    match node:
        case Literal(text):
            return '"' + "".join(_escaped(char, _IN_LITERAL) for char in text) + '"'
        case CharClass(ranges):
            return "[" + "".join(_range(*pair) for pair in _bridged(ranges)) + "]"
        case Reference(name):
            return names[name]
        case Repeat():
            inner = _item(node.node, names)
            if isinstance(node.node, Repeat):
                inner = f"({inner})"
            return inner + _times(node.least, node.most)
        case Free(tags):
            return FREE_TEXT.format(", ".join(_item(Literal(tag), names) for tag in tags))
        case Sequence(()):
            return '""'
        case Sequence() | Choice():
            return f"({_choices(node, names)})"


def _times(least: int, most: int | None) -> str:
    match (least, most):
        case (0, None):
            return "*"
        case (1, None):
            return "+"
        case (0, 1):
            return "?"
        case (_, None):
            return f"{{{least},}}"
        case _:
            return f"{{{least}}}" if least == most else f"{{{least},{most}}}"


def _bridged(ranges: tuple[tuple[int, int], ...]) -> list[tuple[int, int]]:
    """Ranges that go on behind the surrogates as one: the engine loses its way in bytes of a class with
    a gap there, and then lets any token through. No text has surrogates."""
    found: list[tuple[int, int]] = []
    for first, last in ranges:
        if found and first == _LAST_SURROGATE + 1 and found[-1][1] == _FIRST_SURROGATE - 1:
            first, _ = found.pop()
        found.append((first, last))
    return found


def _range(first: int, last: int) -> str:
    from_char = _escaped(chr(first), _IN_CLASS)
    if first == last:
        return from_char
    return f"{from_char}{'-' if last > first + 1 else ''}{_escaped(chr(last), _IN_CLASS)}"


def _escaped(char: str, known: Mapping[str, str]) -> str:
    if char in known:
        return known[char]
    if " " <= char <= "~":
        return char
    code = ord(char)
    if 0xD800 <= code < 0xE000:
        raise GrammarError("half a surrogate pair is no text")
    return f"\\u{code:04x}" if code <= _LARGEST_BMP else f"\\U{code:08x}"
