"""Takes out of a grammar what no word can come through: empty choices, endless rules, unused rules."""

from collections.abc import Iterator, Mapping

from refloat.grammar.errors import GrammarError
from refloat.grammar.nodes import (
    EMPTY,
    NEVER,
    CharClass,
    Choice,
    Free,
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
            case Literal() | CharClass() | Free():
                pass


def _productive(rules: Mapping[str, Node]) -> set[str]:
    """Rules that can come to an end."""
    for name in (used for node in rules.values() for used in references(node)):
        if name not in rules:
            raise GrammarError(f"there is no rule {name}")
    found: set[str] = set()
    watchers: dict[str, list[str]] = {}
    """Who is looked at again once a rule is found."""
    waiting = list(rules)
    while waiting:
        name = waiting.pop()
        if name in found:
            continue
        missing = _missing(rules[name], found)
        if missing is None:
            found.add(name)
            waiting += watchers.pop(name, ())
        for other in missing or ():
            watchers.setdefault(other, []).append(name)
    return found


def _missing(node: Node, known: set[str]) -> frozenset[str] | None:
    """Rules without one of which a node has no end; `None`: it has one."""
    match node:
        case Literal() | Free():
            return None
        case CharClass(ranges):
            return None if ranges else frozenset()
        case Reference(name):
            return None if name in known else frozenset((name,))
        case Sequence(parts):
            for part in parts:
                if (missing := _missing(part, known)) is not None:
                    return missing
            return None
        case Choice(options):
            return _missing_of_all(options, known)
        case Repeat():
            return None if node.least == 0 else _missing(node.node, known)


def _missing_of_all(options: tuple[Node, ...], known: set[str]) -> frozenset[str] | None:
    every: set[str] = set()
    for option in options:
        if (missing := _missing(option, known)) is None:
            return None
        every |= missing
    return frozenset(every)


def _without_never(node: Node, known: set[str]) -> Node:
    match node:
        case Literal() | Free():
            return node
        case CharClass(ranges):
            return node if ranges else NEVER
        case Reference(name):
            return node if name in known else NEVER
        case Sequence(parts):
            inner = [_without_never(part, known) for part in parts]
            return NEVER if NEVER in inner else sequence(*inner)
        case Choice(options):
            inner = [_without_never(option, known) for option in options]
            return choice(*(option for option in inner if option != NEVER))
        case Repeat():
            inner = _without_never(node.node, known)
            if inner != NEVER:
                return repeat(inner, node.least, node.most)
            return NEVER if node.least else EMPTY
