"""Import directions, as docs/ARCHITECTURE.md states them, read from the source with `ast`."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.house.source import tree_of

PACKAGE = Path(__file__).parents[2] / "refloat"

#: Everybody may import these; they import no sibling but each other where listed in LEAVES_ALLOW.
LEAVES = {"wire", "observe", "config", "faults", "kv", "scripted"}

#: Who may import whom, beside the leaves and its own package.
ALLOWED: dict[str, set[str]] = {
    "wire": set(),
    "observe": {"wire"},  # incidents name kinds of faults
    "config": set(),
    "faults": set(),
    "kv": set(),
    "scripted": set(),
    "models": set(),
    "parsing": set(),
    "grammar": {"parsing"},  # calls are written as they are read
    "engines": {"grammar"},  # the scripted one checks what it says
    "worker": {"engines", "models"},
    "prep": {"grammar"},
    "supervisor": {"models"},
    "generation": {"parsing", "supervisor", "models"},
    "api": {"generation", "supervisor", "models", "parsing"},
    "testing": {"app", "models"},
    "bench": {"testing", "engines", "models", "app", "generation", "parsing", "grammar"},
    "drill": {"testing"},
    "cli": {"app", "models", "api", "supervisor", "generation", "testing", "bench", "drill"},
    "app": {"api", "generation", "supervisor", "models", "parsing"},
}

#: Narrower than a whole package.
ONLY_MODULES: dict[tuple[str, str], set[str]] = {
    ("generation", "supervisor"): {"refloat.supervisor.fleet"},
    ("api", "supervisor"): {"refloat.supervisor.fleet", "refloat.supervisor.lifecycle"},
    ("supervisor", "models"): {"refloat.models.manifest"},
    ("generation", "models"): {"refloat.models.manifest"},
    ("api", "models"): {"refloat.models.manifest"},
    ("worker", "models"): {"refloat.models.gguf"},
}

MAY_SPAWN = (
    "refloat.supervisor.process",
    "refloat.testing.",
    "refloat.models.source",
    "refloat.prep.trial.process",
    "refloat.bench.",
)

GATEWAY = ("app", "api", "generation", "parsing", "supervisor", "config", "observe", "wire", "kv")


def modules() -> Iterator[tuple[str, str, Path]]:
    """(package or top-level module, dotted name, file) of every module."""
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        if parts == ("__init__",):
            continue
        yield parts[0], ".".join(("refloat", *parts)), path


def imported_names(path: Path) -> Iterator[str]:
    """Dotted names of all modules that a file imports, wherever in it."""
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module


def test_every_package_has_a_place_in_the_picture() -> None:
    assert {package for package, _, _ in modules()} <= set(ALLOWED)


def objection(package: str, name: str, imported: str) -> str | None:
    """Why a module may not import another; `None` if it may."""
    if not imported.startswith("refloat."):
        return None
    target = imported.split(".")[1]
    if target == package or (target in LEAVES and package not in LEAVES):
        return None
    if imported == "refloat.models.manifest" and package not in LEAVES:
        return None
    if target not in ALLOWED[package]:
        return f"{name} imports {imported}"
    narrower = ONLY_MODULES.get((package, target))
    if narrower is not None and imported not in narrower:
        return f"{name} imports {imported}, but only {sorted(narrower)} are allowed"
    return None


def test_modules_import_only_what_their_package_may() -> None:
    objections = [
        found
        for package, name, path in modules()
        for imported in imported_names(path)
        if (found := objection(package, name, imported))
    ]
    assert not objections


def test_gateway_leaves_openvino_out() -> None:
    names = [name for package, name, _ in modules() if package in GATEWAY]
    script = "import importlib, sys\n" + "\n".join(f"importlib.import_module({n!r})" for n in names)
    script += "\nbad = [m for m in sys.modules if m.split('.')[0].startswith('openvino')]"
    script += "\nours = ('refloat.engines', 'refloat.worker', 'refloat.prep')"
    script += "\nbad += [m for m in sys.modules if m.startswith(ours)]"
    script += "\nassert not bad, bad"
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)


def test_modules_keep_to_the_banned_list() -> None:
    found: list[str] = []
    for _, name, path in modules():
        names = set(imported_names(path))
        found += [f"{name}: {bad}" for bad in names & {"pickle", "multiprocessing", "marshal"}]
        if "subprocess" in names and not name.startswith(MAY_SPAWN):
            found.append(f"{name}: subprocess")
        for node in ast.walk(tree_of(path)):
            if isinstance(node, ast.Call) and any(k.arg == "shell" for k in node.keywords):
                found.append(f"{name}: shell=")
    assert not found
