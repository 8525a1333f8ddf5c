"""Loads that wait for memory or are refused it, and devices that hold a worker nobody can kill."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest

from refloat.config.schema import ModelConfig
from refloat.observe.host_memory import HostMemory
from refloat.supervisor.fleet import Availability
from refloat.supervisor.lifecycle import WorkerState
from refloat.supervisor.load_gate import LoadGate
from refloat.supervisor.process import ChildProcess
from refloat.supervisor.quarantine import Quarantine
from refloat.testing.patience import eventually
from refloat.wire.faults import FaultKind
from refloat.wire.messages import Add, SamplingParams

pytestmark = pytest.mark.process

Supervise = Callable[..., AbstractAsyncContextManager[Any]]
Make = Callable[..., Any]

GB = 1 << 30


def run(scenario: Callable[[], Awaitable[None]]) -> None:
    async def whole() -> None:
        await scenario()

    asyncio.run(whole())


class Host:
    """Made-up memory of a machine, and a gate for each server on it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.free_gb = 10.0

    def memory(self) -> HostMemory:
        return HostMemory(int(self.free_gb * GB), 16 * GB)

    def gate(self) -> LoadGate:
        return LoadGate(self.folder, host_memory=self.memory)

    def filling_gate(self, left_gb: float) -> LoadGate:
        """One on whose host no more than this is left once a load is over."""
        host = self

        class Filling(LoadGate):
            def done(self, pid: int) -> None:
                super().done(pid)
                host.free_gb = left_gb

        return Filling(self.folder, host_memory=self.memory)


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path / "shared")


def scripted(*faults: dict[str, Any], **settings: Any) -> ModelConfig:
    return ModelConfig(model="scripted", faults=list(faults), **settings)


def states(world: Any) -> list[WorkerState]:
    return [state for state in world.fleet.states if state is not WorkerState.SPAWNING]


def test_load_waits_for_another_servers_load_and_says_so(supervise: Supervise, host: Host) -> None:
    """And it waits for longer than a load may stand still: waiting is not held against the worker."""

    async def scenario() -> None:
        hang = {"at": "load", "kind": "hang", "seconds": 4.0}
        patient = scripted(load_timeout_s=1.0)
        async with supervise(config=scripted(hang), gate=host.gate(), weights_bytes=6 * GB) as one:
            await one.until(lambda: one.snapshot.workers[0].state is WorkerState.LOADING)
            async with supervise(config=patient, gate=host.gate(), weights_bytes=6 * GB) as two:
                await two.until(lambda: two.snapshot.reason is not None)
                assert two.snapshot.availability is Availability.LOADING
                assert two.snapshot.reason.startswith("waits for memory: it needs 6.0 GB")
                assert two.snapshot.workers[0].state is WorkerState.LOADING
                assert two.snapshot.cause is None
                assert one.snapshot.availability is Availability.LOADING
                await two.until_ready()
                assert one.snapshot.availability is Availability.READY
                assert two.snapshot.reason is None
                assert two.snapshot.restarts == {}

    run(scenario)


_OTHER_SERVER = """
import asyncio, sys
from pathlib import Path
from refloat.config.schema import ModelConfig
from refloat.models.manifest import Manifest
from refloat.observe.host_memory import HostMemory
from refloat.observe.metrics import Metrics
from refloat.supervisor.fleet import Fleet
from refloat.supervisor.host_share import HostShare
from refloat.supervisor.knobs import Knobs
from refloat.supervisor.load_gate import LoadGate
from refloat.supervisor.supervisor import ModelSupervisor

class Listener:
    def model_changed(self, snapshot): pass

class Watched(Fleet):
    def publish(self, snapshot):
        super().publish(snapshot)
        if snapshot.workers[0].state == "loading":
            print("loading", flush=True)

memory = HostMemory(10 << 30, 16 << 30)
supervisor = ModelSupervisor(
    name="other", created=1,
    config=ModelConfig(model="scripted", faults=[{"at": "load", "kind": "hang"}]),
    manifest=Manifest(1, "scripted", "hash", context_length=4096, weights_bytes=6 << 30),
    model_path="", listener=Listener(), fleet=Watched(), metrics=Metrics(),
    knobs=Knobs(prep_command=(sys.executable, sys.argv[1], "prep")),
    host=HostShare(gate=LoadGate(Path(sys.argv[2]), host_memory=lambda: memory)),
)
asyncio.run(supervisor.run())
"""


def test_load_of_a_server_that_was_killed_holds_nobody_back(
    supervise: Supervise, host: Host, tmp_path: Path
) -> None:
    odd_child = str(Path(__file__).with_name("odd_child.py"))
    other = subprocess.Popen(
        [sys.executable, "-c", _OTHER_SERVER, odd_child, str(host.folder)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=os.environ | {"REFLOAT_HOME": str(tmp_path)},
    )
    assert other.stdout is not None

    async def scenario() -> None:
        async with supervise(config=scripted(), gate=host.gate(), weights_bytes=6 * GB) as world:
            await world.until(lambda: world.snapshot.reason is not None)
            assert "beside the load of 'other'" in world.snapshot.reason
            other.send_signal(signal.SIGKILL)
            other.wait()
            await world.until_ready()

    with other.stdout as lines:
        try:
            assert any(line.strip() == b"loading" for line in lines)
            until_reserved(host)
            run(scenario)
        finally:
            other.kill()
            other.wait()


def until_reserved(host: Host) -> None:
    file = host.folder / "reservations.json"
    eventually(lambda: file.exists() and b"other" in file.read_bytes(), what="a reservation")


def test_load_that_cannot_fit_is_refused_with_figures_and_not_tried_in_a_loop(
    supervise: Supervise, host: Host
) -> None:
    async def scenario() -> None:
        async with supervise(config=scripted(), gate=host.gate(), weights_bytes=12 * GB) as world:
            snapshot = await world.supervisor.wait_first_outcome()
            assert snapshot.availability is Availability.FAILED
            assert snapshot.cause is FaultKind.OUT_OF_MEMORY
            assert snapshot.reason == ("the model needs 12.0 GB of host memory, 9.9 GB are free")
            assert snapshot.restarts == {FaultKind.OUT_OF_MEMORY: 1}
            assert snapshot.retry_after_s is not None
            assert WorkerState.BACKOFF not in states(world)
            host.free_gb = 15.0
            assert world.supervisor.reset()
            await world.until_ready()

    run(scenario)


def test_rebuild_that_finds_its_memory_taken_waits_until_it_is_free_again(
    supervise: Supervise, host: Host
) -> None:
    """What it held was there a moment ago, and its generations are held meanwhile."""

    async def scenario() -> None:
        async with supervise(config=scripted(), gate=host.gate(), weights_bytes=6 * GB) as world:
            await world.until_ready()
            host.free_gb = 4.0
            os.kill(world.pid, signal.SIGKILL)
            await world.until(lambda: world.snapshot.reason == _TAKEN)
            assert world.snapshot.availability is Availability.RECOVERING
            host.free_gb = 10.0
            await world.until_ready(times=2)
            assert world.snapshot.reason is None
            assert world.snapshot.restarts == {FaultKind.DEATH: 1}

    run(scenario)


_TAKEN = "waits for memory: it needs 6.0 GB of host memory, 3.9 GB are free"


def test_cache_larger_than_what_is_free_is_reduced_and_health_says_so(
    supervise: Supervise, host: Host
) -> None:
    async def scenario() -> None:
        async with supervise(config=scripted(cache_size=20.0), gate=host.gate()) as world:
            await world.until_ready()
            assert world.snapshot.notice == (
                "the KV cache has 9.8 GB in place of 20.0 GB: more memory is not free"
            )
            cache = world.snapshot.workers[0].cache
            assert cache.bytes_total < 10 * GB
            assert world.snapshot.reason is None

    run(scenario)


def test_spare_that_finds_no_memory_leaves_the_model_ready(
    supervise: Supervise, host: Host
) -> None:
    async def scenario() -> None:
        config, gate = scripted(spares=1), host.filling_gate(4.0)
        async with supervise(config=config, gate=gate, weights_bytes=6 * GB) as world:
            await world.until_ready()
            await world.until(
                lambda: any(w.state is WorkerState.FAILED for w in world.snapshot.workers)
            )
            spare = world.snapshot.workers[1]
            assert spare.cause is FaultKind.OUT_OF_MEMORY
            assert spare.reason == "the model needs 6.0 GB of host memory, 3.9 GB are free"
            assert world.snapshot.availability is Availability.READY

    run(scenario)


def _do_nothing(child: ChildProcess) -> None:
    """What SIGKILL does to a process that is stuck in the kernel."""


def hang(replica: Any) -> None:
    replica.send(Add(1, 1, b"", 0, SamplingParams(max_tokens=1)))


def test_worker_that_cannot_be_killed_quarantines_its_device_for_every_model(
    supervise: Supervise,
    knobs: Make,
    odd_command: Make,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def scenario() -> None:
        quarantine = Quarantine()
        quick = knobs(worker_command=odd_command("good"), reap_timeout_s=0.2)
        gpu = scripted(device="GPU", stall_floor_s=0.3)
        async with (
            supervise(knobs=quick, config=gpu, quarantine=quarantine) as one,
            supervise(knobs=quick, config=gpu, quarantine=quarantine) as two,
            supervise(knobs=quick, config=scripted(device="GPU.1"), quarantine=quarantine) as far,
        ):
            replica = await one.until_ready()
            await two.until_ready()
            await far.until_ready()
            pid = one.pid
            with monkeypatch.context() as patch:
                patch.setattr(ChildProcess, "kill", _do_nothing)
                patch.setattr(ChildProcess, "ask_for_stacks", _do_nothing)
                hang(replica)
                snapshot = await one.until_available(Availability.FAILED)
            named = f"worker process {pid} of model 'm' was killed and does not die"
            assert snapshot.reason == f"device GPU.0 is quarantined: {named}"
            assert snapshot.cause is FaultKind.UNKILLABLE
            assert snapshot.retry_after_s is None

            assert two.snapshot.availability is Availability.READY
            os.kill(two.pid, signal.SIGKILL)
            refused = await two.until_available(Availability.FAILED)
            assert refused.reason == snapshot.reason
            assert refused.workers[0].pid is None
            os.kill(far.pid, signal.SIGKILL)
            await far.until_ready(times=2)

            os.kill(pid, signal.SIGKILL)
            await one.until(lambda: one.snapshot.workers[0].state is WorkerState.FAILED)
            assert two.snapshot.availability is Availability.FAILED
            assert one.supervisor.reset()
            await one.until_ready(times=2)
            await two.until_ready(times=2)

    run(scenario)


def test_spare_serves_on_beside_a_worker_that_cannot_be_killed(
    supervise: Supervise,
    knobs: Make,
    odd_command: Make,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def scenario() -> None:
        quick = knobs(worker_command=odd_command("good"), reap_timeout_s=0.2)
        config = scripted(device="GPU", stall_floor_s=0.3, spares=1)
        async with supervise(knobs=quick, config=config) as world:
            replica = await world.until_ready()
            await world.until(lambda: len(world.snapshot.workers) == 2)
            await world.until(
                lambda: all(w.state is WorkerState.READY for w in world.snapshot.workers)
            )
            pid = world.pid
            with monkeypatch.context() as patch:
                patch.setattr(ChildProcess, "kill", _do_nothing)
                patch.setattr(ChildProcess, "ask_for_stacks", _do_nothing)
                hang(replica)
                await world.until(lambda: world.snapshot.workers[-1].state is WorkerState.STUCK)
            assert world.snapshot.availability is Availability.READY
            os.kill(pid, signal.SIGKILL)
            await world.until(lambda: world.snapshot.workers[-1].state is WorkerState.FAILED)

    run(scenario)
