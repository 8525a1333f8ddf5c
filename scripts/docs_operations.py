"""The generated parts of docs/OPERATIONS.md."""

import ast
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec
from docs_api import exit_codes
from docs_tables import code, member_docs, members, table

from refloat.observe.device import DeviceFacts
from refloat.observe.incident_hints import HINTS
from refloat.observe.incident_record import (
    Action,
    BatchEntry,
    Incident,
    KernelNote,
    Loss,
    Missing,
)
from refloat.observe.kernel_lines import KernelEventKind
from refloat.supervisor.availability import availability_of
from refloat.supervisor.lifecycle import WorkerState
from refloat.wire.exit_codes import ChildExit
from refloat.wire.faults import FaultKind

PACKAGE = Path(__file__).resolve().parents[1] / "refloat"
#: They have no log of a server's.
_SILENT = {"cli", "bench", "testing", "worker", "prep", "engines"}
_LEVELS = ("debug", "info", "warning", "error", "critical")
#: What a level that is chosen at run time is called in the code.
_CHOSEN = ("write", "say", "log")


def states() -> str:
    rows = [
        [code(state), said, code(_model(state, was_ready=False)), code(_model(state))]
        for state, (_, said) in zip(WorkerState, members(WorkerState), strict=True)
    ]
    return table(["worker", "meaning", "model, before it was ever ready", "model, later"], rows)


def _model(state: WorkerState, *, was_ready: bool = True) -> str:
    prep = WorkerState.READY
    return availability_of(state, prep, was_ready=was_ready, is_stopping=False).value


def fields(kind: type[msgspec.Struct]) -> str:
    docs = member_docs(kind)
    names = [field.encode_name for field in msgspec.structs.fields(kind)]
    return table(["field", "meaning"], [[code(name), docs[name]] for name in names])


def child_exits() -> str:
    docs = member_docs(ChildExit)
    return table(["code", "why"], [[str(c.value), docs[c.name]] for c in ChildExit])


def hints() -> str:
    return table(["pattern", "hint"], [[hint.pattern, hint.advice] for hint in HINTS])


class _Line(NamedTuple):
    event: str
    level: str
    package: str
    fields: tuple[str, ...]


def log_events() -> str:
    levels: defaultdict[str, set[str]] = defaultdict(set)
    packages: defaultdict[str, set[str]] = defaultdict(set)
    names: defaultdict[str, dict[str, None]] = defaultdict(dict)
    for line in _log_lines():
        levels[line.event].add(line.level)
        packages[line.event].add(line.package)
        names[line.event].update(dict.fromkeys(line.fields))
    rows = [
        [
            code(event),
            ", ".join(sorted(levels[event])),
            ", ".join(sorted(packages[event])),
            ", ".join(map(code, names[event])) or "–",
        ]
        for event in sorted(levels)
    ]
    return table(["event", "level", "from", "fields"], rows)


def _log_lines() -> Iterator[_Line]:
    for path in sorted(PACKAGE.rglob("*.py")):
        package = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
        if package in _SILENT:
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and node.args and (level := _level(node.func)):
                event = _event(node.args[0])
                fields = tuple(k.arg for k in node.keywords if k.arg)
                if event is not None:
                    yield _Line(event, level, package, fields)


def _level(function: ast.expr) -> str | None:
    if isinstance(function, ast.Attribute) and function.attr in _LEVELS:
        owner = function.value
        name = owner.attr if isinstance(owner, ast.Attribute) else getattr(owner, "id", "")
        return function.attr if str(name).endswith("log") else None
    is_chosen = isinstance(function, ast.Name) and function.id in _CHOSEN
    return "varies" if is_chosen else None


def _event(argument: ast.expr) -> str | None:
    match argument:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=values):
            parts = [v.value if isinstance(v, ast.Constant) else "…" for v in values]
            return "".join(map(str, parts))
        case _:
            return None


SECTIONS: dict[str, Callable[[], str]] = {
    "states-and-models": states,
    "causes": lambda: table(["cause", "meaning"], members(FaultKind)),
    "incident-fields": lambda: fields(Incident),
    "incident-batch": lambda: fields(BatchEntry),
    "incident-actions": lambda: fields(Action),
    "incident-losses": lambda: fields(Loss),
    "incident-kernel": lambda: fields(KernelNote),
    "incident-missing": lambda: fields(Missing),
    "incident-device": lambda: fields(DeviceFacts),
    "incident-hints": hints,
    "kernel-kinds": lambda: table(["kind", "meaning"], members(KernelEventKind)),
    "server-exit-codes": exit_codes,
    "child-exit-codes": child_exits,
    "log-events": log_events,
}
