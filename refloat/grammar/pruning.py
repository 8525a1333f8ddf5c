"""Takes out of a grammar what no word can come through: empty choices, endless rules, unused rules."""

from collections.abc import Iterator, Mapping

from refloat.grammar.errors import GrammarError
from refloat.grammar.nodes import (
    EMPTY,
    NEVER,
    CharClass,
    Choice,
    Literal,
    Node,
    Reference,
    Repeat,
    Sequence,
    choice,
    repeat,
    sequence,
)


def pruned(rules: Mapping[str, Node], start: str) -> dict[str, Node]:
    """Only rules that words need, the first one first. Raises `GrammarError` if there is no word."""
    productive = _productive(rules)
    if start not in productive:
        raise GrammarError("no text at all can match this")
    kept: dict[str, Node] = {}
    waiting = [start]
    while waiting:
        name = waiting.pop()
        if name in kept:
            continue
        kept[name] = _without_never(rules[name], productive)
        waiting += reversed(list(references(kept[name])))
    return kept


def references(node: Node) -> Iterator[str]:
    """Names of the rules that a node mentions."""
    stack = [node]
    while stack:
        at = stack.pop()
        match at:
            case Reference(name):
                yield name
            case Sequence(inner) | Choice(inner):
                stack += reversed(inner)
            case Repeat():
                stack.append(at.node)
            case Literal() | CharClass():
                pass


def _productive(rules: Mapping[str, Node]) -> set[str]:
    """Rules that can come to an end."""
    users: dict[str, list[str]] = {}
    for name, node in rules.items():
        for used in references(node):
            if used not in rules:
                raise GrammarError(f"there is no rule {used}")
            users.setdefault(used, []).append(name)
    found: set[str] = set()
    waiting = list(rules)
    while waiting:
        name = waiting.pop()
        if name not in found and _ends(rules[name], found):
            found.add(name)
            waiting += users.get(name, ())
    return found


def _ends(node: Node, known: set[str]) -> bool:
    match node:
        case Literal():
            return True
        case CharClass(ranges):
            return bool(ranges)
        case Reference(name):
            return name in known
        case Sequence(parts):
            return all(_ends(part, known) for part in parts)
        case Choice(options):
            return any(_ends(option, known) for option in options)
        case Repeat():
            return node.least == 0 or _ends(node.node, known)


def _without_never(node: Node, known: set[str]) -> Node:
    if not _ends(node, known):
        return NEVER
    match node:
        case Sequence(parts):
            return sequence(*(_without_never(part, known) for part in parts))
        case Choice(options):
            return choice(*(_without_never(o, known) for o in options if _ends(o, known)))
        case Repeat():
            inner = _without_never(node.node, known)
            return EMPTY if inner == NEVER else repeat(inner, node.least, node.most)
        case Literal() | CharClass() | Reference():
            return node
