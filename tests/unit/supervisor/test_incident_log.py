"""The slot's witness with a stand-in for a child: what cannot be had from real processes at will."""

import asyncio
import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import pytest

from refloat.observe.incident_record import Incident
from refloat.observe.incidents import IncidentStore
from refloat.observe.kernel_log import KernelLog
from refloat.observe.metrics import Metrics
from refloat.supervisor.child import Child
from refloat.supervisor.exits import Fault
from refloat.supervisor.incident_log import IncidentLog
from refloat.supervisor.incident_sources import IncidentSources, Particulars
from refloat.supervisor.lifecycle import Effect, WorkerState
from refloat.supervisor.replica import Share
from refloat.wire.faults import FaultKind
from refloat.wire.messages import EngineSpec
from refloat.wire.progress import Phase, Progress

S = WorkerState
STALL = Fault(FaultKind.STALL, "no progress")


@dataclass
class StandInProcess:
    exited: bool = False
    killed_s: float | None = None
    code: int | None = None

    def has_exited(self) -> bool:
        return self.exited

    def exit_code(self) -> int | None:
        return self.code

    def last_stderr(self) -> str:
        return "words\n"


@dataclass
class StandInChild:
    worker_id: int = 1
    pid: int = field(default_factory=os.getpid)
    page: Progress | None = None
    is_scribbled: bool = False
    process: StandInProcess = field(default_factory=StandInProcess)

    def progress(self) -> Progress | None:
        if self.is_scribbled:
            raise ValueError("no phase")
        return self.page


class Bench:
    """An incident log on a folder."""

    def __init__(self, folder: Path) -> None:
        self.store = IncidentStore(folder)
        self.metrics = Metrics()
        kernel = KernelLog(folder / "nothing")
        self.log = IncidentLog(
            "m",
            "CPU",
            IncidentSources(self.store, kernel, late_kernel_s=0.0),
            lambda: Particulars(EngineSpec("scripted", "", rung=2), {"x": "1"}, (Share(7, 10, 3),)),
            self.metrics.incidents,
        )

    def condemn(self, child: StandInChild | None, fault: Fault, state: WorkerState) -> None:
        self.log.condemned(cast("Child", child), fault, state)
        self.log.moved(state, S.EXITED)

    async def written(self) -> list[Incident]:
        await self.log.finish(10.0)
        return [self.store.read(incident_id) for incident_id in self.store.ids()]


def run(scenario: Callable[[], Awaitable[None]]) -> None:
    async def whole() -> None:
        async with asyncio.timeout(20):
            await scenario()

    asyncio.run(whole())


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path / "incidents")


def test_process_that_cannot_be_reaped_is_a_stuck_incident_with_its_threads(bench: Bench) -> None:
    async def scenario() -> None:
        page = Progress(Phase.STEPPING, 9, 512, 1, 4, (7,))
        child = StandInChild(page=page)
        bench.condemn(child, STALL, S.SUSPECT)
        bench.log.moved(S.EXITED, S.STUCK)
        assert bench.log.open_id is None
        assert bench.log.outage_id is not None
        [incident] = await bench.written()
        assert (incident.outcome, incident.cause, incident.rung) == ("stuck", FaultKind.STALL, 2)
        assert (incident.phase, incident.step, incident.step_tokens) == ("stepping", 9, 512)
        assert [entry.in_step for entry in incident.batch] == [True]
        assert {"stacks.txt", "stacks-stuck.txt"} <= set(incident.files)
        assert any("driver" in hint for hint in incident.hints)
        assert bench.metrics.registry.get_sample_value(
            "refloat_incidents_total", {"model": "m", "cause": "stall"}
        )

    run(scenario)


def test_worker_that_is_replaced_on_purpose_is_no_incident(bench: Bench) -> None:
    async def scenario() -> None:
        bench.condemn(StandInChild(), Fault(FaultKind.OPERATOR, "retired"), S.READY)
        bench.log.reaped(cast("Child", StandInChild()), Fault(FaultKind.OPERATOR, "retired"))
        assert bench.log.open_id is None
        assert await bench.written() == []

    run(scenario)


def test_page_that_was_scribbled_on_is_on_record(bench: Bench) -> None:
    async def scenario() -> None:
        bench.condemn(StandInChild(is_scribbled=True), STALL, S.READY)
        [incident] = await bench.written()
        assert incident.outcome == "stopped"
        assert "progress page" in [entry.what for entry in incident.missing]
        assert incident.phase is None

    run(scenario)


def test_losses_on_the_way_back_are_bounded_and_counted(bench: Bench) -> None:
    async def scenario() -> None:
        for number in range(1, 31):
            child = StandInChild(worker_id=number)
            fault = Fault(FaultKind.LOAD_FAILED, f"try {number}")
            bench.condemn(child, fault, S.LOADING)
            child.process.code = 71
            bench.log.reaped(cast("Child", child), fault)
            bench.log.moved(S.EXITED, S.BACKOFF)
            bench.log.moved(S.BACKOFF, S.SPAWNING)
            bench.log.performed(Effect.SPAWN, cast("Child", StandInChild(number + 1)))
            bench.log.moved(S.SPAWNING, S.LOADING)
        bench.log.moved(S.LOADING, S.PROBING)
        bench.log.moved(S.PROBING, S.READY)
        bench.log.performed(Effect.ANNOUNCE_READY, cast("Child", StandInChild(31)))
        [incident] = await bench.written()
        assert incident.losses_total == 30
        assert [loss.reason for loss in incident.losses] == [f"try {n}" for n in range(11, 31)]
        assert incident.reason == "try 1"
        assert incident.exit_status == 71
        assert incident.outcome == "ready"
        assert incident.actions[-1].name == "re-admit"
        assert len(incident.actions) <= 200

    run(scenario)


def test_outcome_of_an_incident_long_past_is_left_out(bench: Bench) -> None:
    async def scenario() -> None:
        ids: list[str] = []
        for _ in range(20):
            bench.condemn(StandInChild(), STALL, S.READY)
            ids.append(bench.log.open_id or "")
            bench.log.performed(Effect.ANNOUNCE_READY, cast("Child", StandInChild()))
        bench.log.outcome(ids[0], 7, "finished")
        bench.log.outcome(ids[-1], 7, "finished")
        by_id = {incident.id: incident for incident in await bench.written()}
        assert len(by_id) == 20
        assert by_id[ids[0]].generations == {}
        assert by_id[ids[-1]].generations == {"7": "finished"}

    run(scenario)
