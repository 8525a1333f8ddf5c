"""The generated parts of docs/lifecycle.md."""

from collections import defaultdict
from collections.abc import Callable, Iterable

from docs_tables import code, members, table

from refloat.generation.states import TERMINAL, TRANSITIONS, GenerationEvent, GenerationState
from refloat.supervisor.lifecycle import (
    PREP_TABLE,
    WORKER_TABLE,
    Effect,
    Table,
    WorkerEvent,
    WorkerState,
)


def _diagram(edges: Iterable[tuple[str, str, str]], first: str, last: Iterable[str]) -> str:
    labels: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    for before, event, after in edges:
        labels[before, after].append(event)
    lines = ["```mermaid", "stateDiagram-v2", f"    [*] --> {first}"]
    lines += [f"    {a} --> {b}: {', '.join(events)}" for (a, b), events in labels.items()]
    lines += [f"    {state} --> [*]" for state in last]
    return "\n".join([*lines, "```", ""])


def _slot_diagram(slot: Table) -> str:
    edges = [(before.value, event.value, step[0].value) for (before, event), step in slot.items()]
    return _diagram(edges, WorkerState.SPAWNING.value, ())


def _slot_table(slot: Table) -> str:
    rows = [
        [code(before), code(event), code(after), ", ".join(map(code, effects)) or "–"]
        for (before, event), (after, effects) in slot.items()
    ]
    return table(["state", "event", "next", "effects, in order"], rows)


def generation_diagram() -> str:
    edges = [
        (before.value, event.value, after.value) for (before, event), after in TRANSITIONS.items()
    ]
    last = [state.value for state in GenerationState if state in TERMINAL]
    return _diagram(edges, GenerationState.QUEUED.value, last)


def generation_table() -> str:
    rows = [[code(b), code(e), code(a)] for (b, e), a in TRANSITIONS.items()]
    return table(["state", "event", "next"], rows)


SECTIONS: dict[str, Callable[[], str]] = {
    "worker-diagram": lambda: _slot_diagram(WORKER_TABLE),
    "worker-states": lambda: table(["state", "meaning"], members(WorkerState)),
    "worker-events": lambda: table(["event", "meaning"], members(WorkerEvent)),
    "worker-effects": lambda: table(["effect", "meaning"], members(Effect)),
    "worker-table": lambda: _slot_table(WORKER_TABLE),
    "prep-diagram": lambda: _slot_diagram(PREP_TABLE),
    "prep-table": lambda: _slot_table(PREP_TABLE),
    "generation-diagram": generation_diagram,
    "generation-states": lambda: table(["state", "meaning"], members(GenerationState)),
    "generation-events": lambda: table(["event", "meaning"], members(GenerationEvent)),
    "generation-table": generation_table,
}
