"""Each outage leaves one whole incident: cause, evidence, actions with durations, outcome."""

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest

from refloat.config.schema import ModelConfig
from refloat.observe.coredump import CoredumpFinder
from refloat.observe.incident_record import Incident
from refloat.observe.incidents import IncidentStore
from refloat.observe.kernel_log import KernelLog
from refloat.supervisor.fleet import Availability, Replica
from refloat.supervisor.incident_sources import IncidentSources
from refloat.wire.faults import FaultKind
from refloat.wire.messages import Add, SamplingParams, pack_ids

pytestmark = pytest.mark.process

Supervise = Callable[..., AbstractAsyncContextManager[Any]]
Make = Callable[..., Any]

SECRET = "swordfish-7316"


class Lab:
    """A machine of its own: kernel log, sysfs and incidents in a folder."""

    def __init__(self, folder: Path) -> None:
        self.kernel_path = folder / "kmsg"
        self.kernel_path.touch()
        self.sys_root = folder / "sys"
        self.store = IncidentStore(folder / "incidents")
        self.kernel = KernelLog(self.kernel_path, knows_pids=True)

    def sources(self, **changes: Any) -> IncidentSources:
        given: dict[str, Any] = {
            "kernel": self.kernel,
            "coredumps": CoredumpFinder(self.sys_root),
            "sys_root": self.sys_root,
        }
        return IncidentSources(self.store, **(given | changes))

    def kernel_says(self, line: str) -> None:
        with self.kernel_path.open("a") as file:
            file.write(line + "\n")

    def add_card(self, address: str = "0000:03:00.0") -> Path:
        device = self.sys_root / "devices" / address
        device.mkdir(parents=True)
        (device / "vendor").write_text("0x8086\n")
        entry = self.sys_root / "class" / "drm" / "card0"
        entry.mkdir(parents=True)
        (entry / "device").symlink_to(device)
        return device

    def incidents(self) -> list[Incident]:
        """All, once nothing is written any more."""
        return [self.store.read(incident_id) for incident_id in self.store.ids()]

    def file(self, incident: Incident, name: str) -> str:
        return self.store.path(incident.id, name).read_text()

    def everything(self) -> bytes:
        files = [path for path in self.store.folder.rglob("*") if path.is_file()]
        return b"\n".join(path.read_bytes() for path in files)


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    folder = tmp_path / "lab"
    folder.mkdir()
    return Lab(folder)


def run(scenario: Callable[[], Awaitable[None]]) -> None:
    async def whole() -> None:
        await scenario()

    asyncio.run(whole())


def scripted(*faults: dict[str, Any], **settings: Any) -> ModelConfig:
    return ModelConfig(model="scripted", faults=list(faults), **settings)


def add(replica: Replica, generation: int, text: str = SECRET) -> None:
    params = SamplingParams(max_tokens=500, temperature=0.0, stop_token_ids=(0,))
    replica.send(Add(generation, 1, pack_ids(list(text.encode())), 0, params))


def durations(incident: Incident) -> dict[str, float]:
    return {action.name: action.duration_s for action in incident.actions}


@pytest.mark.parametrize(
    ("act", "cause"),
    [
        ("kill", FaultKind.DEATH),
        ("segv", FaultKind.DEATH),
        ("context_fatal", FaultKind.CONTEXT_FATAL),
        ("oom", FaultKind.OUT_OF_MEMORY),
        ("garbage", FaultKind.PROTOCOL),
        ("close_socket", FaultKind.DEATH),
        ("hang", FaultKind.STALL),
    ],
)
def test_fault_in_a_step_leaves_one_whole_incident(
    supervise: Supervise, lab: Lab, act: str, cause: FaultKind
) -> None:
    """The fault comes at the third step, so something was emitted by then."""

    async def scenario() -> None:
        fault = {"at": "token", "token": 3, "kind": act}
        config = scripted(fault, stall_floor_s=1.0)
        async with supervise(config=config, sources=lab.sources()) as world:
            first = await world.until_ready()
            add(first, 11)
            second = await world.until_ready(times=2)
            assert world.supervisor.incidents.open_id is None
            await world.supervisor.stop(10.0)
            await world.task
            metrics = world.metrics.render().decode()
            assert f'refloat_incidents_total{{cause="{cause}",model="m"}} 1.0' in metrics
        [incident] = lab.incidents()
        assert incident.cause is cause
        assert incident.outcome == "ready"
        assert incident.state == ("suspect" if act == "hang" else "ready")
        assert incident.worker_id == first.worker_id
        assert incident.closed is not None
        assert incident.duration_s is not None
        [entry] = incident.batch
        assert (entry.generation, entry.prompt_tokens) == (11, len(SECRET))
        assert entry.emitted_tokens == 3
        found = durations(incident)
        assert {"withdraw", "reap", "backoff", "spawn", "load", "probe", "re-admit"} <= set(found)
        assert all(duration >= 0 for duration in found.values())
        new = {a.worker_id for a in incident.actions if a.name in ("spawn", "load", "probe")}
        assert new == {second.worker_id}
        assert "stderr.txt" in incident.files
        assert set(incident.files) < set(os.listdir(lab.store.path(incident.id)))
        assert incident.exit_status is not None
        assert incident.versions
        assert SECRET.encode() not in lab.everything()

    run(scenario)


def test_hang_leaves_stacks_of_python_and_of_the_kernel(supervise: Supervise, lab: Lab) -> None:
    async def scenario() -> None:
        config = scripted({"at": "step", "kind": "hang"}, stall_floor_s=0.6)
        async with supervise(config=config, sources=lab.sources()) as world:
            add(await world.until_ready(), 1)
            await world.until_ready(times=2)
        [incident] = lab.incidents()
        assert (incident.phase, incident.exit_status) == ("stepping", -signal.SIGKILL)
        assert [entry.in_step for entry in incident.batch] == [True]
        assert {"detect", "kill"} <= durations(incident).keys()
        assert durations(incident)["detect"] > 0.3
        stacks = lab.file(incident, "python-stacks.txt")
        assert "refloat/worker/loop.py" in stacks
        threads = lab.file(incident, "stacks.txt")
        assert f"--- thread {incident.pid}" in threads
        assert "wchan: " in threads

    run(scenario)


def test_kernel_line_that_names_the_worker_kills_it_at_once(supervise: Supervise, lab: Lab) -> None:
    """Long before its own budget would end it."""

    async def scenario() -> None:
        lab.kernel.start()
        config = scripted({"at": "step", "kind": "hang"}, stall_floor_s=1_000.0)
        async with supervise(config=config, sources=lab.sources()) as world:
            add(await world.until_ready(), 1)
            lab.kernel_says("i915 0000:03:00.0: [drm] GPU HANG: ecode 12, in refloat-worker [1]")
            lab.kernel_says(
                f"xe 0000:03:00.0: [drm] GT0: Timedout job: in refloat-worker [{world.pid}]"
            )
            await world.until_ready(times=2)
            [(_, _, cause)] = world.recorder.lost()
            assert cause is FaultKind.CONTEXT_FATAL
        lab.kernel.close()
        [incident] = lab.incidents()
        assert "xe 0000:03:00.0" in incident.reason
        assert [note.names_worker for note in incident.kernel] == [False, True]
        assert any("GPU_ENABLE_SDPA_OPTIMIZATION=false" in hint for hint in incident.hints)
        assert "Timedout job" in lab.file(incident, "kernel.log")
        assert not [entry for entry in incident.missing if entry.what == "kernel log"]

    run(scenario)


@pytest.mark.parametrize("is_late", [False, True])
def test_oom_line_makes_a_death_out_of_memory(
    supervise: Supervise, lab: Lab, is_late: bool
) -> None:
    """Late: only after the worker is known to be dead."""

    async def scenario() -> None:
        lab.kernel.start()
        sources = lab.sources(late_kernel_s=0.5)
        async with supervise(config=scripted(), sources=sources) as world:
            await world.until_ready()
            pid = world.pid
            line = f"Out of memory: Killed process {pid} (refloat-worker) total-vm:9174744kB"
            if not is_late:
                lab.kernel_says(line)
            os.kill(pid, signal.SIGKILL)
            await world.until(lambda: bool(world.recorder.lost()))
            if is_late:
                lab.kernel_says(line)
            await world.until_ready(times=2)
        lab.kernel.close()
        [incident] = lab.incidents()
        assert incident.cause is FaultKind.OUT_OF_MEMORY
        assert "memory ran out" in incident.reason
        assert incident.exit_status == -signal.SIGKILL
        assert any("cache_size" in hint for hint in incident.hints)
        metrics = world.metrics.render().decode()
        assert 'refloat_incidents_total{cause="out_of_memory",model="m"} 1.0' in metrics
        if not is_late:
            assert world.snapshot.restarts == {FaultKind.OUT_OF_MEMORY: 1}

    run(scenario)


def test_kernel_log_that_cannot_be_read_is_on_record(supervise: Supervise, lab: Lab) -> None:
    async def scenario() -> None:
        sources = lab.sources(kernel=KernelLog(Path("/nonexistent/kmsg")))
        sources.kernel.start()
        async with supervise(config=scripted(), sources=sources) as world:
            await world.until_ready()
            os.kill(world.pid, signal.SIGKILL)
            await world.until_ready(times=2)
        [incident] = lab.incidents()
        assert incident.cause is FaultKind.DEATH
        [why] = [entry.why for entry in incident.missing if entry.what == "kernel log"]
        assert why.startswith("/nonexistent/kmsg")
        assert any("/dev/kmsg" in hint for hint in incident.hints)

    run(scenario)


def test_device_coredump_is_copied_before_it_vanishes(supervise: Supervise, lab: Lab) -> None:
    device = lab.add_card()

    async def scenario() -> None:
        config = scripted({"at": "token", "token": 2, "kind": "hang"}, device="GPU")
        async with supervise(config=config, sources=lab.sources()) as world:
            add(await world.until_ready(), 1)
            await world.until(lambda: bool(world.recorder.steps))
            dump = device / "devcoredump" / "data"
            dump.parent.mkdir()
            dump.write_bytes(b"**** Xe Device Coredump ****")
            os.kill(world.pid, signal.SIGKILL)
            await world.until_ready(times=2)
        dump.unlink()
        [incident] = lab.incidents()
        assert lab.file(incident, "coredump.bin") == "**** Xe Device Coredump ****"
        assert incident.device.address == "0000:03:00.0"

    run(scenario)


def test_loads_that_fail_are_one_incident_until_the_model_is_failed(
    supervise: Supervise, lab: Lab
) -> None:
    async def scenario() -> None:
        config = scripted({"at": "load", "kind": "raise", "times": 50})
        async with supervise(config=config, sources=lab.sources()) as world:
            await world.until_available(Availability.FAILED)
            assert world.supervisor.reset()
            await world.until(lambda: sum(world.snapshot.restarts.values()) == 6)
            await world.until_available(Availability.FAILED)
        [incident] = lab.incidents()
        assert (incident.cause, incident.outcome) == (FaultKind.LOAD_FAILED, "failed")
        assert incident.losses_total == len(incident.losses) == 6
        assert {loss.exit_status for loss in incident.losses} <= {71, -signal.SIGKILL}
        assert "stderr-last.txt" in incident.files

    run(scenario)


def test_worker_that_cannot_be_started_leaves_an_incident_without_a_process(
    supervise: Supervise, lab: Lab, knobs: Make
) -> None:
    async def scenario() -> None:
        given = knobs(worker_command=("/nonexistent/program",))
        async with supervise(config=scripted(), knobs=given, sources=lab.sources()) as world:
            await world.until_available(Availability.FAILED)
        [incident] = lab.incidents()
        assert incident.pid is None
        assert incident.outcome == "failed"

    run(scenario)


def test_each_loss_of_a_ready_worker_is_an_incident_and_old_ones_go_first(
    supervise: Supervise, lab: Lab, knobs: Make, tmp_path: Path
) -> None:
    async def scenario() -> None:
        lab.store = IncidentStore(tmp_path / "few", max_incidents=2)
        given, sources = knobs(crash_limit=10), lab.sources()
        async with supervise(config=scripted(), knobs=given, sources=sources) as world:
            await world.until_ready()
            for times in range(2, 5):
                os.kill(world.pid, signal.SIGKILL)
                await world.until_ready(times=times)
        incidents = lab.incidents()
        assert [incident.outcome for incident in incidents] == ["ready", "ready"]
        assert incidents[-1].worker_id > incidents[0].worker_id

    run(scenario)


def test_outcomes_of_generations_are_added_after_the_incident_is_closed(
    supervise: Supervise, lab: Lab
) -> None:
    async def scenario() -> None:
        async with supervise(config=scripted(), sources=lab.sources()) as world:
            add(await world.until_ready(), 11)
            log = world.supervisor.incidents
            os.kill(world.pid, signal.SIGKILL)
            await world.until(lambda: log.open_id is not None)
            incident_id = log.open_id
            await world.until_ready(times=2)
            log.outcome(incident_id, 11, "resumed")
            log.outcome(incident_id, 11, "finished")
            log.outcome("unknown", 12, "finished")
        [incident] = lab.incidents()
        assert incident.id == incident_id
        assert incident.generations == {"11": "finished"}

    run(scenario)


def test_folder_that_cannot_be_written_costs_the_evidence_and_nothing_else(
    supervise: Supervise, lab: Lab, tmp_path: Path
) -> None:
    async def scenario() -> None:
        (tmp_path / "file").write_text("no folder")
        sources = IncidentSources(IncidentStore(tmp_path / "file" / "incidents"), lab.kernel)
        async with supervise(config=scripted(), sources=sources) as world:
            await world.until_ready()
            os.kill(world.pid, signal.SIGKILL)
            await world.until_ready(times=2)
            assert world.snapshot.availability is Availability.READY

    run(scenario)


def test_stop_leaves_no_incident(supervise: Supervise, lab: Lab) -> None:
    async def scenario() -> None:
        async with supervise(config=scripted(), sources=lab.sources()) as world:
            await world.until_ready()
        assert lab.incidents() == []

    run(scenario)
