"""The supervisor with the real worker program (scripted engine, planned faults) and a small prep."""

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
from refloat.supervisor.fleet import Availability, Replica
from refloat.supervisor.lifecycle import WorkerState
from refloat.testing.patience import eventually
from refloat.wire.faults import FaultKind
from refloat.wire.messages import Add, SamplingParams, Step, pack_ids

pytestmark = pytest.mark.process

Supervise = Callable[..., AbstractAsyncContextManager[Any]]
Make = Callable[..., Any]


def run(scenario: Callable[[], Awaitable[None]]) -> None:
    async def whole() -> None:
        await scenario()

    asyncio.run(whole())


def scripted(*faults: dict[str, Any], **settings: Any) -> ModelConfig:
    return ModelConfig(model="scripted", faults=list(faults), **settings)


def add(replica: Replica, generation: int = 1) -> None:
    params = SamplingParams(max_tokens=8, temperature=0.0, stop_token_ids=(0,))
    replica.send(Add(generation, 1, pack_ids(list(b"Hi")), 0, params))


def test_worker_serves_and_tokens_reach_the_listener(supervise: Supervise) -> None:
    async def scenario() -> None:
        async with supervise(config=scripted()) as world:
            replica = await world.until_ready()
            facts = world.snapshot.facts
            assert facts.vocab_size == 256
            assert facts.context_length == 4_096
            assert facts.fingerprint.startswith("fp_")
            assert replica.cache is not None
            add(replica)
            await world.until(
                lambda: any(
                    output.ended for step in world.recorder.steps for output in step.outputs
                )
            )
            ids = [i for step in world.recorder.steps for out in step.outputs for i in out.ids]
            assert ids
            metrics = world.metrics.render().decode()
            assert 'refloat_worker_state{model="m",state="ready"} 1.0' in metrics
            assert world.snapshot.workers[0].load_s is not None

    run(scenario)


@pytest.mark.parametrize(
    ("act", "cause"),
    [
        ("raise", FaultKind.STEP_FAULT),
        ("context_fatal", FaultKind.CONTEXT_FATAL),
        ("segv", FaultKind.DEATH),
        ("kill", FaultKind.DEATH),
        ("exit", FaultKind.DEATH),
        ("garbage", FaultKind.PROTOCOL),
        ("close_socket", FaultKind.DEATH),
        ("oom", FaultKind.OUT_OF_MEMORY),
    ],
)
def test_worker_fault_in_a_step_costs_one_worker(
    supervise: Supervise, act: str, cause: FaultKind
) -> None:
    async def scenario() -> None:
        async with supervise(config=scripted({"at": "step", "kind": act})) as world:
            add(await world.until_ready())
            second = await world.until_ready(times=2)
            [(_, lost_id, told)] = world.recorder.lost()
            assert lost_id < second.worker_id
            assert told is cause
            assert world.snapshot.restarts == {cause: 1}
            add(second, generation=2)  # the fault was fired once, and its plan remembers that
            await world.until(lambda: bool(world.recorder.steps))
            assert len(world.recorder.replicas) == 2

    run(scenario)


def test_worker_that_hangs_in_a_step_is_suspect_then_killed_for_a_stall(
    supervise: Supervise,
) -> None:
    async def scenario() -> None:
        config = scripted({"at": "step", "kind": "hang"}, stall_floor_s=0.6)
        async with supervise(config=config) as world:
            first = await world.until_ready()
            add(first)
            await world.until_ready(times=2)
            told = [event for event in world.recorder.events if event[0] in ("suspect", "lost")]
            assert told == [
                ("suspect", first.worker_id),
                ("lost", first.worker_id, FaultKind.STALL),
            ]

    run(scenario)


def test_worker_that_hangs_for_a_moment_is_suspect_and_well_again(supervise: Supervise) -> None:
    async def scenario() -> None:
        config = scripted({"at": "step", "kind": "hang", "seconds": 2.5}, stall_floor_s=4.0)
        async with supervise(config=config) as world:
            first = await world.until_ready()
            add(first)
            await world.until(lambda: ("well", first.worker_id) in world.recorder.events)
            assert world.recorder.lost() == []
            assert Availability.RECOVERING in [
                event[1] for event in world.recorder.events if event[0] == "model"
            ]

    run(scenario)


def test_worker_that_hangs_while_loading_is_killed(supervise: Supervise) -> None:
    async def scenario() -> None:
        config = scripted({"at": "load", "kind": "hang"}, load_timeout_s=1.0)
        async with supervise(config=config) as world:
            await world.until_ready()
            assert world.snapshot.restarts == {FaultKind.STALL: 1}

    run(scenario)


@pytest.mark.parametrize("times", [1, 8])
def test_wrong_probe_is_never_ready_and_retried_once(supervise: Supervise, times: int) -> None:
    """A probe has four tokens, so eight times are two probes that are wrong in every token."""

    async def scenario() -> None:
        async with supervise(config=scripted()) as world:
            await world.until_ready()
        wrong = {"at": "probe", "kind": "wrong_output", "times": times}
        async with supervise(config=scripted(wrong)) as world:
            if times == 1:
                await world.until_ready()
                assert world.snapshot.restarts == {FaultKind.WRONG_OUTPUT: 1}
                return
            snapshot = await world.supervisor.wait_first_outcome()
            assert snapshot.availability is Availability.FAILED
            assert snapshot.cause is FaultKind.WRONG_OUTPUT
            assert WorkerState.READY not in world.fleet.states
            assert world.supervisor.reset(accept_probe=True)
            await world.until_ready()

    run(scenario)


def test_bad_configuration_is_failed_at_once_and_an_operator_can_try_again(
    supervise: Supervise,
) -> None:
    async def scenario() -> None:
        async with supervise(config=scripted(engine_options={"no_such_option": 1})) as world:
            snapshot = await world.supervisor.wait_first_outcome()
            assert snapshot.cause is FaultKind.BAD_CONFIGURATION
            assert snapshot.restarts == {FaultKind.BAD_CONFIGURATION: 1}
            assert world.supervisor.reset()
            await world.until(lambda: world.snapshot.restarts == {FaultKind.BAD_CONFIGURATION: 2})
            await world.until_available(Availability.FAILED)

    run(scenario)


def test_stop_lets_an_idle_worker_leave_by_itself(supervise: Supervise) -> None:
    async def scenario() -> None:
        async with supervise(config=scripted()) as world:
            replica = await world.until_ready()
            await world.supervisor.stop(20.0)
            await world.task
            assert world.recorder.lost() == [("lost", replica.worker_id, FaultKind.OPERATOR)]
            assert world.snapshot.availability is Availability.DRAINING
            assert world.snapshot.restarts == {}
            add(replica)

    run(scenario)


@pytest.mark.parametrize("mode", ["stubborn", "silent"])
def test_stop_kills_what_does_not_leave(
    supervise: Supervise, knobs: Make, odd_command: Make, mode: str
) -> None:
    async def scenario() -> None:
        async with supervise(knobs=knobs(worker_command=odd_command(mode))) as world:
            if mode == "stubborn":
                await world.until_ready()
            await world.supervisor.stop(0.4)
            await world.task
            assert world.snapshot.workers[0].pid is None

    run(scenario)


def test_stop_of_a_failed_model_returns(
    supervise: Supervise, knobs: Make, odd_command: Make
) -> None:
    async def scenario() -> None:
        async with supervise(knobs=knobs(worker_command=odd_command("die"))) as world:
            await world.supervisor.wait_first_outcome()
            await world.supervisor.stop(5.0)
            await world.task

    run(scenario)


def test_listener_that_raises_ends_the_supervisor_and_its_children(supervise: Supervise) -> None:
    def explode(step: Step) -> None:
        raise RuntimeError("a bug of ours")

    async def scenario() -> None:
        async with supervise(config=scripted()) as world:
            replica = await world.until_ready()
            world.recorder.on_step = explode
            add(replica)
            with pytest.raises(ExceptionGroup) as caught:
                async with asyncio.timeout(20):
                    await world.task
            assert caught.group_contains(RuntimeError, match="a bug of ours")

    run(scenario)


def test_cancelled_supervisor_leaves_no_child(supervise: Supervise) -> None:
    pids: list[int] = []

    async def scenario() -> None:
        async with supervise(config=scripted()) as world:
            await world.until_ready()
            pids.append(world.pid)
            world.task.cancel()
            await asyncio.wait({world.task}, timeout=20)
            assert world.task.cancelled()

    run(scenario)
    assert not Path(f"/proc/{pids[0]}").exists()


_GATEWAY = """
import asyncio, sys
from refloat.config.schema import ModelConfig
from refloat.models.manifest import Manifest
from refloat.observe.metrics import Metrics
from refloat.supervisor.fleet import Fleet
from refloat.supervisor.knobs import Knobs
from refloat.supervisor.supervisor import ModelSupervisor

class Listener:
    def replica_ready(self, replica): print(fleet.get("m").workers[0].pid, flush=True)
    def model_changed(self, snapshot): pass

fleet = Fleet()
supervisor = ModelSupervisor(
    name="m", created=1, config=ModelConfig(model="scripted"),
    manifest=Manifest(1, "scripted", "hash", context_length=4096), model_path="",
    listener=Listener(), fleet=fleet, metrics=Metrics(),
    knobs=Knobs(prep_command=(sys.executable, sys.argv[1], "prep")),
)
asyncio.run(supervisor.run())
"""


def test_killed_gateway_leaves_no_worker(tmp_path: Path) -> None:
    odd_child = str(Path(__file__).with_name("odd_child.py"))
    gateway = subprocess.Popen(
        [sys.executable, "-c", _GATEWAY, odd_child],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=os.environ | {"REFLOAT_HOME": str(tmp_path)},
    )
    assert gateway.stdout is not None
    with gateway.stdout as lines:
        pid = next(int(line) for line in lines if line.strip().isdigit())
        gateway.send_signal(signal.SIGKILL)
        gateway.wait()
    eventually(lambda: not Path(f"/proc/{pid}/status").exists(), what="the worker is gone")


def test_both_real_programs_serve_a_scripted_model_together(
    supervise: Supervise, knobs: Make
) -> None:
    async def scenario() -> None:
        quick = knobs(prep_command=(sys.executable, "-m", "refloat.prep"))
        async with supervise(knobs=quick, config=scripted()) as world:
            replica = await world.until_ready()
            ids = await world.supervisor.prep.tokenize(["Hi"], add_special_tokens=True)
            params = SamplingParams(max_tokens=8, temperature=0.0, stop_token_ids=(0,))
            replica.send(Add(1, 1, pack_ids(ids[0]), 0, params))
            await world.until(lambda: bool(world.recorder.steps))
            emitted = [i for step in world.recorder.steps for out in step.outputs for i in out.ids]
            text = await world.supervisor.prep.detokenize(emitted)
            assert text
            os.kill(world.pid, signal.SIGKILL)
            await world.until_ready(times=2)
            assert await world.supervisor.prep.detokenize(emitted) == text

    run(scenario)
