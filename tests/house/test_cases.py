"""The list of cases says what is: its tests exist, and every test of a case is in it."""

import ast
import re
from pathlib import Path

from tests.house.source import tree_of

ROOT = Path(__file__).parents[2]
CASES = ROOT / "tests" / "cases"
NUMBER_OF_CASES = 122

_ROW = re.compile(r"^\| (\d+) \| ([^|]+) \| ([^|]+) \| ([^|]+) \|$", re.MULTILINE)
_TEST = re.compile(r"`([^`:]+\.py)::(\w+)`")


def listed() -> dict[int, str]:
    """The last column of each case."""
    rows = _ROW.findall((ROOT / "docs" / "CASES.md").read_text())
    return {int(number): shown.strip() for number, _, _, shown in rows}


def cases_by_test(path: Path) -> dict[str, set[int]]:
    """The tests of a file, and the cases that each names."""
    found: dict[str, set[int]] = {}
    for node in tree_of(path).body:
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
            found[node.name] = set()
            for mark in node.decorator_list:
                if isinstance(mark, ast.Call) and ast.unparse(mark.func) == "pytest.mark.case":
                    found[node.name] |= {ast.literal_eval(number) for number in mark.args}
    return found


def test_every_case_has_one_row_with_tests_or_what_it_waits_for() -> None:
    numbers = [int(row[0]) for row in _ROW.findall((ROOT / "docs" / "CASES.md").read_text())]
    assert len(numbers) == NUMBER_OF_CASES
    assert numbers == sorted(set(numbers))
    for number, shown in listed().items():
        is_waiting = re.fullmatch(r"waits for: [\w ,]+", shown) is not None
        assert is_waiting != bool(_TEST.findall(shown)), number


def test_every_test_that_is_listed_exists_and_names_its_case() -> None:
    for number, shown in listed().items():
        for file, name in _TEST.findall(shown):
            found = cases_by_test(ROOT / file)
            assert name in found, f"case {number}: {file}::{name}"
            assert (ROOT / file).parent != CASES or number in found[name], f"case {number}: {name}"


def test_every_test_of_a_case_is_listed_under_it() -> None:
    shown = listed()
    for path in sorted(CASES.glob("test_*.py")):
        for name, numbers in cases_by_test(path).items():
            assert numbers, f"{path.name}::{name} names no case"
            for number in numbers:
                entry = f"`{path.relative_to(ROOT)}::{name}`"
                assert entry in shown[number], f"case {number}: {entry} is not listed"
