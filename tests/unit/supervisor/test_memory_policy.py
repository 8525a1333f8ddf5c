"""Which worker is replaced for its memory, when bodies are refused; and the figures behind it."""

import os
from pathlib import Path
from typing import Any

import pytest

from refloat.generation.budget import ByteBudget
from refloat.observe.host_memory import HostMemory
from refloat.supervisor.fleet import Availability, Fleet, ModelSnapshot, WorkerSnapshot
from refloat.supervisor.lifecycle import WorkerState
from refloat.supervisor.memory_policy import (
    LEAST_GROWTH_BYTES,
    LEAST_INTERVAL_S,
    GatewayMemory,
    WorkerMemory,
    judge,
)
from refloat.supervisor.memory_watch import MemoryLimits, MemoryWatch
from refloat.wire.messages import CacheFacts
from refloat.wire.problem import ProblemError, ProblemKind

MIB = 1 << 20
WELL = HostMemory(8192 * MIB, 16384 * MIB)
SHORT = HostMemory(100 * MIB, 16384 * MIB)
RESERVE = 256 * MIB
GATEWAY = GatewayMemory(200 * MIB, None, is_refusing=False)


def worker(worker_id: int = 1, **figures: Any) -> WorkerMemory:
    """In MiB."""
    limit, since = figures.pop("limit", None), figures.pop("since_last_s", None)
    known = {"now": 1000, "when_ready": 500, "cache": 0, **figures}
    return WorkerMemory(
        "m",
        worker_id,
        **{name: value * MIB for name, value in known.items()},
        limit=None if limit is None else limit * MIB,
        since_last_s=since,
    )


def replaced(*workers: WorkerMemory, host: HostMemory = WELL) -> list[int]:
    return [r.worker_id for r in judge(GATEWAY, workers, host, RESERVE).replacements]


@pytest.mark.parametrize(
    ("figures", "is_replaced"),
    [
        ({}, False),
        ({"limit": 1000}, False),
        ({"limit": 999}, True),
        ({"limit": 499}, False),  # it needed more from the beginning, and so would the next
        ({"limit": 999, "since_last_s": LEAST_INTERVAL_S - 1}, False),
        ({"limit": 999, "since_last_s": LEAST_INTERVAL_S}, True),
    ],
)
def test_worker_beyond_its_limit_is_replaced(figures: dict[str, Any], is_replaced: bool) -> None:
    assert replaced(worker(**figures)) == ([1] if is_replaced else [])


def test_short_host_costs_the_worker_that_has_grown_most() -> None:
    grown, more = worker(1, now=900), worker(2, now=1500)
    assert replaced(grown, more) == []
    assert replaced(grown, more, host=SHORT) == [2]
    assert replaced(grown, worker(2, now=1500, cache=800), host=SHORT) == [1]
    assert replaced(grown, worker(2, now=1500, since_last_s=1.0), host=SHORT) == [1]


def test_short_host_costs_no_worker_that_has_not_grown() -> None:
    least = LEAST_GROWTH_BYTES // MIB
    assert replaced(worker(now=500 + least - 1), host=SHORT) == []
    assert replaced(worker(now=500 + least), host=SHORT) == [1]


def test_bodies_are_refused_while_memory_is_short_and_until_there_is_some_more() -> None:
    def refusal(available: int, *, is_refusing: bool) -> str | None:
        gateway = GATEWAY._replace(is_refusing=is_refusing)
        return judge(gateway, [], HostMemory(available * MIB, 1 << 40), RESERVE).refusal

    assert refusal(256, is_refusing=False) is None
    assert refusal(255, is_refusing=False) == "the machine is short of memory"
    assert refusal(319, is_refusing=True) is not None
    assert refusal(320, is_refusing=True) is None


def test_gateways_own_limit_is_kept() -> None:
    for now, is_refusing, refuses in ((100, False, False), (101, False, True), (90, True, True)):
        gateway = GatewayMemory(now, 100, is_refusing=is_refusing)
        assert (judge(gateway, [], WELL, 0).refusal is not None) is refuses


class Machine:
    """A root with the files that figures are read from, and a watch over it."""

    def __init__(self, root: Path, limits: MemoryLimits) -> None:
        self.root = root
        self.fleet = Fleet()
        self.budget = ByteBudget(1 << 30)
        self.replaced: list[tuple[str, int]] = []
        self.now_s = 1000.0
        self.set(available=8192)
        self.hold(os.getpid(), 100)
        self.watch = MemoryWatch(
            self.fleet,
            limits,
            refuse=self.budget.refuse,
            replace=lambda model, worker_id, _reason: self.replaced.append((model, worker_id)),
            root=root,
            clock=lambda: self.now_s,
        )

    def set(self, *, available: int) -> None:
        self._write("proc/meminfo", f"MemTotal: 16777216 kB\nMemAvailable: {available * 1024} kB\n")

    def hold(self, pid: int, mib: int) -> None:
        self._write(f"proc/{pid}/status", f"Name: x\nRssAnon: {mib * 1024} kB\nRssFile: 9 kB\n")

    def serve(self, worker_id: int, pid: int, state: WorkerState = WorkerState.READY) -> None:
        worker = WorkerSnapshot(worker_id, state, 0.0, pid=pid, cache=CacheFacts(16, 8, 10 * MIB))
        self.fleet.publish(ModelSnapshot("m", 0, Availability.READY, (worker,), None))

    def _write(self, path: str, text: str) -> None:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)


def test_watch_replaces_the_worker_once_and_knows_the_next_as_another(tmp_path: Path) -> None:
    machine = Machine(tmp_path, MemoryLimits(RESERVE, workers={"m": 500 * MIB}))
    machine.hold(71, 900)
    machine.serve(1, 71, WorkerState.LOADING)
    machine.watch.look()
    assert machine.replaced == [], "what a load takes is the load gate's affair"
    machine.hold(71, 400)
    machine.serve(1, 71)
    machine.watch.look()
    machine.hold(71, 501)
    machine.watch.look()
    machine.watch.look()
    assert machine.replaced == [("m", 1)]
    machine.hold(72, 400)
    machine.serve(2, 72)
    machine.watch.look()
    machine.hold(72, 501)
    machine.watch.look()
    assert machine.replaced == [("m", 1)], "not twice in a minute"
    machine.now_s += LEAST_INTERVAL_S
    machine.watch.look()
    assert machine.replaced == [("m", 1), ("m", 2)]


def test_watch_refuses_new_bodies_in_danger_and_takes_them_again(tmp_path: Path) -> None:
    machine = Machine(tmp_path, MemoryLimits(RESERVE))
    machine.watch.look()
    held = machine.budget.reserve(10)
    machine.set(available=100)
    machine.watch.look()
    with pytest.raises(ProblemError) as caught:
        machine.budget.reserve(1)
    assert caught.value.problem.kind is ProblemKind.OVERLOADED
    assert "short of memory" in caught.value.problem.message
    held.adjust(5)  # work under way goes on
    machine.set(available=8192)
    machine.watch.look()
    machine.budget.reserve(1)


def test_watch_sees_the_control_groups_limit(tmp_path: Path) -> None:
    machine = Machine(tmp_path, MemoryLimits(RESERVE))
    machine._write("proc/self/cgroup", "0::/box\n")  # pyright: ignore[reportPrivateUsage]
    for name, value in (("memory.max", 1000 * MIB), ("memory.current", 900 * MIB)):
        machine._write(f"sys/fs/cgroup/box/{name}", str(value))  # pyright: ignore[reportPrivateUsage]
    machine.watch.look()
    assert machine.budget.refusal is not None
