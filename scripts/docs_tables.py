"""Markdown from code: tables, and what classes say of their members."""

import ast
import inspect
import textwrap
from collections.abc import Iterable, Sequence
from enum import Enum
from typing import Any


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "".join("| " + " | ".join(_cell(cell) for cell in line) + " |\n" for line in lines)


def code(value: object) -> str:
    """As code."""
    return f"`{value}`"


def member_docs(kind: type[Any]) -> dict[str, str]:
    """What a class says of each of its members: the strings behind them, by name."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(kind))).body[0]
    assert isinstance(tree, ast.ClassDef)
    found: dict[str, str] = {}
    for node, after in zip(tree.body, tree.body[1:], strict=False):
        targets = node.targets if isinstance(node, ast.Assign) else []
        target = node.target if isinstance(node, ast.AnnAssign) else next(iter(targets), None)
        text = _text(after)
        if isinstance(target, ast.Name) and text is not None:
            found[target.id] = " ".join(text.split())
    return found


def _text(node: ast.stmt) -> str | None:
    if not isinstance(node, ast.Expr) or not isinstance(node.value, ast.Constant):
        return None
    value = node.value.value
    return value if isinstance(value, str) else None


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def members(kind: type[Enum]) -> list[list[str]]:
    """Each member of an enumeration and what is said of it."""
    docs = member_docs(kind)
    return [[code(member.value), docs[member.name]] for member in kind]
