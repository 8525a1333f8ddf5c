"""Modules as `ast` sees them, parsed once for all tests of a file."""

import ast
from functools import cache
from pathlib import Path


@cache
def tree_of(path: Path) -> ast.Module:
    """The syntax tree of a module. Read-only."""
    return ast.parse(path.read_text())
