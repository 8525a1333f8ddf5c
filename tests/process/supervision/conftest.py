"""A supervised model in a test: the real supervisor, a listener that remembers, nothing left behind."""

import asyncio
import contextlib
import os
import sys
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import pytest

from refloat.config.schema import ModelConfig
from refloat.models.manifest import Manifest
from refloat.observe.incidents import IncidentStore
from refloat.observe.metrics import Metrics
from refloat.supervisor.backoff import BackoffPolicy
from refloat.supervisor.fleet import (
    Availability,
    Fleet,
    ModelSnapshot,
    Rebuild,
    Replica,
    ReplicaLoss,
)
from refloat.supervisor.host_share import HostShare
from refloat.supervisor.incident_sources import IncidentSources
from refloat.supervisor.knobs import Knobs
from refloat.supervisor.lifecycle import WorkerState
from refloat.supervisor.load_gate import LoadGate
from refloat.supervisor.probe import ProbeStore
from refloat.supervisor.quarantine import Quarantine
from refloat.supervisor.supervisor import ModelSupervisor
from refloat.wire.messages import Refused, Step

DEADLINE_S = 40.0
NAME = "m"


class WatchedFleet(Fleet):
    """Wakes a test at every publication, and remembers the states."""

    def __init__(self) -> None:
        super().__init__()
        self.changed = asyncio.Event()
        self.states: list[WorkerState] = []

    def publish(self, snapshot: ModelSnapshot) -> None:
        super().publish(snapshot)
        self.states += [worker.state for worker in snapshot.workers]
        self.changed.set()


@dataclass
class Recorder:
    """A listener that checks, at each loss, that readiness had been withdrawn before."""

    fleet: WatchedFleet
    events: list[tuple[Any, ...]] = field(default_factory=list[tuple[Any, ...]])
    replicas: list[Replica] = field(default_factory=list[Replica])
    losses: list[ReplicaLoss] = field(default_factory=list[ReplicaLoss])
    rebuild: Rebuild = Rebuild.SAME
    """What is answered to a loss."""
    steps: list[Step] = field(default_factory=list[Step])
    on_step: Callable[[Step], None] | None = None

    def replica_ready(self, replica: Replica) -> None:
        self.replicas.append(replica)
        self._note("ready", replica.worker_id)
        assert self._availability() is Availability.READY

    def replica_step(self, worker_id: int, step: Step) -> None:
        self.steps.append(step)
        if self.on_step is not None:
            self.on_step(step)
        self.fleet.changed.set()

    def replica_refused(self, worker_id: int, refused: Refused) -> None:
        self._note("refused", worker_id, refused.problem.kind)

    def replica_suspect(self, worker_id: int, *, suspect: bool) -> None:
        self._note("suspect" if suspect else "well", worker_id)

    def replica_lost(self, worker_id: int, loss: ReplicaLoss) -> Rebuild:
        assert self._availability() is not Availability.READY
        self.losses.append(loss)
        self._note("lost", worker_id, loss.cause)
        return self.rebuild

    def model_changed(self, snapshot: ModelSnapshot) -> None:
        assert self.fleet.get(NAME) is snapshot
        self._note("model", snapshot.availability)

    def lost(self) -> list[tuple[Any, ...]]:
        return [event for event in self.events if event[0] == "lost"]

    def _availability(self) -> Availability | None:
        snapshot = self.fleet.get(NAME)
        return None if snapshot is None else snapshot.availability

    def _note(self, *event: Any) -> None:
        self.events.append(event)
        self.fleet.changed.set()


@dataclass
class World:
    """One supervised model."""

    supervisor: ModelSupervisor
    fleet: WatchedFleet
    recorder: Recorder
    metrics: Metrics
    task: "asyncio.Task[None]"

    @property
    def snapshot(self) -> ModelSnapshot:
        snapshot = self.fleet.get(NAME)
        assert snapshot is not None
        return snapshot

    @property
    def pid(self) -> int:
        pid = self.snapshot.workers[0].pid
        assert pid is not None
        return pid

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait for a condition; a supervisor that breaks fails the test at once."""
        async with asyncio.timeout(DEADLINE_S):
            while not condition():
                self.fleet.changed.clear()
                woken = asyncio.ensure_future(self.fleet.changed.wait())
                try:
                    await asyncio.wait({woken, self.task}, return_when="FIRST_COMPLETED")
                finally:
                    woken.cancel()
                if self.task.done():
                    self.task.result()
                    assert condition(), "the supervisor ended first"

    async def until_available(self, availability: Availability) -> ModelSnapshot:
        await self.until(lambda: self.snapshot.availability is availability)
        return self.snapshot

    async def until_ready(self, times: int = 1) -> Replica:
        await self.until(
            lambda: (
                len(self.recorder.replicas) >= times
                and self.snapshot.availability is Availability.READY
            )
        )
        return self.recorder.replicas[-1]


def odd(mode: str) -> tuple[str, ...]:
    """The command line of a misbehaving child."""
    return (sys.executable, str(Path(__file__).with_name("odd_child.py")), mode)


def quick(**changes: Any) -> Knobs:
    """Budgets for a test: short, but not so short that a busy machine breaks them."""
    given: dict[str, Any] = {
        "prep_command": odd("prep"),
        "poll_s": 0.05,
        "backoff": BackoffPolicy(base_s=0.01, max_s=0.05),
        "kill_grace_s": 0.1,
        "crash_limit": 3,
        "cooldown_s": 1_000.0,
    }
    return Knobs(**(given | changes))


Supervise = Callable[..., AbstractAsyncContextManager[World]]


@pytest.fixture
def supervise(tmp_path: Path) -> Supervise:
    """`async with supervise(knobs=..., config=...) as world:`, stopped at its end."""

    @contextlib.asynccontextmanager
    async def supervised(
        *,
        knobs: Knobs | None = None,
        config: ModelConfig | None = None,
        sources: IncidentSources | None = None,
        quarantine: Quarantine | None = None,
        gate: LoadGate | None = None,
        weights_bytes: int = 0,
    ) -> AsyncGenerator[World]:
        if sources is None:
            sources = IncidentSources(IncidentStore(tmp_path / "incidents"))
        fleet, metrics = WatchedFleet(), Metrics()
        recorder = Recorder(fleet)
        manifest = Manifest(
            1,
            "scripted",
            "hash",
            context_length=4_096,
            eos_token_ids=(0,),
            weights_bytes=weights_bytes,
        )
        supervisor = ModelSupervisor(
            name=NAME,
            created=1,
            config=ModelConfig(model="scripted") if config is None else config,
            manifest=manifest,
            model_path="",
            listener=recorder,
            fleet=fleet,
            metrics=metrics,
            knobs=quick() if knobs is None else knobs,
            probes=ProbeStore(tmp_path / "probes"),
            incidents=sources,
            host=HostShare(
                Quarantine() if quarantine is None else quarantine,
                LoadGate(tmp_path / "loads") if gate is None else gate,
            ),
        )
        task = asyncio.create_task(supervisor.run())
        await asyncio.sleep(0)
        try:
            yield World(supervisor, fleet, recorder, metrics, task)
        finally:
            async with asyncio.timeout(DEADLINE_S):
                if not task.done():
                    await supervisor.stop(10.0)
                await asyncio.gather(task, return_exceptions=True)

    return supervised


@pytest.fixture(autouse=True)
def nothing_left_behind() -> Iterator[None]:
    """A child, zombie or descriptor left over is a failure."""
    descriptors = len(os.listdir("/proc/self/fd"))
    children = _children()  # servers that other tests of this process share
    yield
    assert _children() <= children
    assert len(os.listdir("/proc/self/fd")) <= descriptors


def _children() -> set[int]:
    """Process ids of this process's children, zombies included."""
    return {child.pid for child in psutil.Process().children()}


@pytest.fixture
def knobs() -> Callable[..., Knobs]:
    """Quick knobs with changes."""
    return quick


@pytest.fixture
def odd_command() -> Callable[[str], tuple[str, ...]]:
    """Command lines of misbehaving children."""
    return odd
