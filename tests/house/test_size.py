"""Files and functions stay small enough to be read in one go."""

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "refloat"
FILES = sorted(PACKAGE.rglob("*.py"))
MAX_FILE_LINES = 300
MAX_FUNCTION_LINES = 60


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_file_is_small_and_says_what_lives_in_it(path: Path) -> None:
    source = path.read_text()
    assert len(source.splitlines()) <= MAX_FILE_LINES
    tree = ast.parse(source)
    assert ast.get_docstring(tree), "a module opens with what lives in it"
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert node.end_lineno is not None
            length = node.end_lineno - node.lineno + 1
            assert length <= MAX_FUNCTION_LINES, f"{node.name}: {length} lines"


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_public_names_have_docstrings(path: Path) -> None:
    for node in ast.parse(path.read_text()).body:
        is_definition = isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        if is_definition and not node.name.startswith("_"):
            assert ast.get_docstring(node), f"{node.name} has no docstring"


def test_tests_do_not_sleep() -> None:
    tests = PACKAGE.parent / "tests"
    for path in tests.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                is_sleep = node.func.attr == "sleep" and isinstance(node.func.value, ast.Name)
                if is_sleep and node.func.value.id in ("time", "asyncio"):  # type: ignore[attr-defined]
                    argument = node.args[0] if node.args else None
                    yields_only = isinstance(argument, ast.Constant) and argument.value == 0
                    assert yields_only, f"{path}:{node.lineno} sleeps; wait for a condition instead"
