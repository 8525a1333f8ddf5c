"""Files and functions stay small enough to be read in one go."""

import ast
from pathlib import Path

from tests.house.source import tree_of

PACKAGE = Path(__file__).parents[2] / "refloat"
FILES = sorted(PACKAGE.rglob("*.py"))
MAX_FILE_LINES = 300
MAX_FUNCTION_LINES = 60


def test_files_and_functions_are_small() -> None:
    too_long: list[str] = []
    for path in FILES:
        source = path.read_text()
        if len(source.splitlines()) > MAX_FILE_LINES:
            too_long.append(f"{path}: {len(source.splitlines())} lines")
        for node in ast.walk(tree_of(path)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                assert node.end_lineno is not None
                length = node.end_lineno - node.lineno + 1
                if length > MAX_FUNCTION_LINES:
                    too_long.append(f"{path}: {node.name}: {length} lines")
    assert not too_long


def test_modules_and_public_names_say_what_they_are() -> None:
    silent: list[str] = []
    for path in FILES:
        tree = tree_of(path)
        if not ast.get_docstring(tree):
            silent.append(str(path))
        for node in tree.body:
            is_definition = isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
            if is_definition and not node.name.startswith("_") and not ast.get_docstring(node):
                silent.append(f"{path}: {node.name}")
    assert not silent


def test_tests_do_not_sleep() -> None:
    tests = PACKAGE.parent / "tests"
    for path in tests.rglob("*.py"):
        for node in ast.walk(tree_of(path)):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                is_sleep = node.func.attr == "sleep" and isinstance(node.func.value, ast.Name)
                if is_sleep and node.func.value.id in ("time", "asyncio"):  # type: ignore[attr-defined]
                    argument = node.args[0] if node.args else None
                    yields_only = isinstance(argument, ast.Constant) and argument.value == 0
                    assert yields_only, f"{path}:{node.lineno} sleeps; wait for a condition instead"
