"""Children that die or go wrong at any moment: none is left over, none is waited for, each is named."""

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest

from refloat.config.schema import ModelConfig
from refloat.supervisor.fleet import Availability
from refloat.supervisor.lifecycle import WorkerState
from refloat.supervisor.process import ChildProcess, child_environment
from refloat.testing.patience import eventually
from refloat.wire.faults import FaultKind
from refloat.wire.messages import Add, SamplingParams

pytestmark = pytest.mark.process

Supervise = Callable[..., AbstractAsyncContextManager[Any]]
Make = Callable[..., Any]


def run(scenario: Callable[[], Awaitable[None]]) -> None:
    async def whole() -> None:
        await scenario()

    asyncio.run(whole())


@pytest.mark.parametrize(
    ("mode", "cause", "words"),
    [
        ("die", FaultKind.DEATH, "exit code 3"),
        ("torn", FaultKind.DEATH, "although nobody asked it to"),
        ("close", FaultKind.DEATH, "had to be killed"),
        ("holder", FaultKind.DEATH, "exit code 70"),
        ("garbage", FaultKind.PROTOCOL, "not ours"),
        ("impostor", FaultKind.PROTOCOL, "a prep process answered"),
        ("early", FaultKind.PROTOCOL, "Probed while spawning"),
        ("noisy", FaultKind.DEATH, "exit code 70"),
        ("silent", FaultKind.STALL, "no progress"),
    ],
)
def test_worker_that_goes_wrong_opens_the_breaker_and_is_named(
    supervise: Supervise, knobs: Make, odd_command: Make, mode: str, cause: FaultKind, words: str
) -> None:
    async def scenario() -> None:
        hello_timeout_s = 0.5 if mode == "silent" else 30.0
        quick = knobs(worker_command=odd_command(mode), hello_timeout_s=hello_timeout_s)
        async with supervise(knobs=quick) as world:
            snapshot = await world.supervisor.wait_first_outcome()
            assert snapshot.availability is Availability.FAILED
            assert snapshot.cause is cause
            assert words in snapshot.reason
            assert snapshot.restarts == {cause: 3}
            assert world.recorder.replicas == []
            assert world.fleet.states.count(WorkerState.READY) == 0

    run(scenario)


def test_worker_of_another_version_is_failed_at_once(
    supervise: Supervise, knobs: Make, odd_command: Make
) -> None:
    async def scenario() -> None:
        async with supervise(knobs=knobs(worker_command=odd_command("stranger"))) as world:
            snapshot = await world.supervisor.wait_first_outcome()
            assert snapshot.cause is FaultKind.BAD_CONFIGURATION
            assert "restart the server" in snapshot.reason
            assert snapshot.restarts == {FaultKind.BAD_CONFIGURATION: 1}
            assert snapshot.retry_after_s is None

    run(scenario)


def test_worker_that_cannot_be_started_is_failed_with_the_systems_reason(
    supervise: Supervise, knobs: Make
) -> None:
    async def scenario() -> None:
        async with supervise(knobs=knobs(worker_command=("/no/such/program",))) as world:
            snapshot = await world.supervisor.wait_first_outcome()
            assert snapshot.cause is FaultKind.LOAD_FAILED
            assert "No such file" in snapshot.reason

    run(scenario)


def test_breaker_closes_by_itself_for_one_try_after_the_cool_down(
    supervise: Supervise, knobs: Make, odd_command: Make
) -> None:
    async def scenario() -> None:
        quick = knobs(worker_command=odd_command("die"), cooldown_s=0.05)
        async with supervise(knobs=quick) as world:
            await world.supervisor.wait_first_outcome()
            await world.until(lambda: world.snapshot.restarts.get(FaultKind.DEATH, 0) >= 5)
            await world.until_available(Availability.FAILED)
            assert world.fleet.states.count(WorkerState.BACKOFF) == 2

    run(scenario)


def test_killed_worker_is_lost_once_and_followed_by_another(
    supervise: Supervise, knobs: Make, odd_command: Make
) -> None:
    async def scenario() -> None:
        async with supervise(knobs=knobs(worker_command=odd_command("good"))) as world:
            first = await world.until_ready()
            assert world.snapshot.retry_after_s is None
            os.kill(world.pid, signal.SIGKILL)
            recovering = await world.until_available(Availability.RECOVERING)
            assert recovering.retry_after_s is not None
            assert recovering.cause is FaultKind.DEATH
            second = await world.until_ready(times=2)
            assert second.worker_id > first.worker_id
            assert [event[1] for event in world.recorder.lost()] == [first.worker_id]
            assert Availability.RECOVERING in [
                event[1] for event in world.recorder.events if event[0] == "model"
            ]
            assert world.snapshot.restarts == {FaultKind.DEATH: 1}
            assert world.snapshot.reason is None

    run(scenario)


def test_worker_that_cannot_be_reaped_is_stuck_and_not_followed(
    supervise: Supervise,
    knobs: Make,
    odd_command: Make,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def scenario() -> None:
        quick = knobs(worker_command=odd_command("good"), reap_timeout_s=0.2)
        config = ModelConfig(model="scripted", stall_floor_s=0.3)
        async with supervise(knobs=quick, config=config) as world:
            replica = await world.until_ready()
            pid = world.pid
            with monkeypatch.context() as patch:
                patch.setattr(ChildProcess, "kill", _do_nothing)
                patch.setattr(ChildProcess, "ask_for_stacks", _do_nothing)
                replica.send(Add(1, 1, b"", 0, SamplingParams(max_tokens=1)))
                snapshot = await world.until_available(Availability.FAILED)
                assert snapshot.workers[0].state is WorkerState.STUCK
                assert snapshot.cause is FaultKind.UNKILLABLE
                assert not world.supervisor.reset()
            os.kill(pid, signal.SIGKILL)
            await world.until(lambda: world.snapshot.workers[0].state is WorkerState.FAILED)
            assert world.supervisor.reset()
            await world.until_ready(times=2)

    run(scenario)


def test_holders_grandchild_dies_with_its_session(
    supervise: Supervise, knobs: Make, odd_command: Make
) -> None:
    sessions: list[int] = []

    async def scenario() -> None:
        quick = knobs(worker_command=odd_command("holder"), crash_limit=1)
        async with supervise(knobs=quick) as world:
            await world.until(lambda: world.snapshot.workers[0].pid is not None)
            sessions.append(world.pid)
            await world.supervisor.wait_first_outcome()

    run(scenario)
    eventually(lambda: not _members(sessions[0]), what="the grandchild is gone")


def test_child_gets_no_secret_and_its_output_is_kept(odd_command: Make) -> None:
    async def scenario() -> None:
        ended = asyncio.Event()
        child = ChildProcess(odd_command("env"), with_progress=True, on_exit=ended.set)
        async with asyncio.timeout(20):
            await ended.wait()
        assert child.exit_code() == 70
        assert child.reap() == 70
        names = child.last_stderr().split()
        child.socket.close()
        child.close()
        assert {"PATH", "PYTHONUNBUFFERED", "PYTHONSAFEPATH"} <= set(names)

    run(scenario)


def test_child_environment_drops_what_looks_a_secret() -> None:
    parent = {
        "HF_TOKEN": "x",
        "OPENAI_API_KEY": "x",
        "AWS_SECRET_ACCESS_KEY": "x",
        "DB_PASSWORD": "x",
        "TOKENIZERS_PARALLELISM": "1",
        "MONKEY": "1",
    }
    assert child_environment(parent) == {
        "TOKENIZERS_PARALLELISM": "1",
        "MONKEY": "1",
        "PYTHONUNBUFFERED": "1",
        "PYTHONSAFEPATH": "1",
    }


def _do_nothing(child: ChildProcess) -> None:
    """What SIGKILL does to a process that is stuck in the kernel."""


def _members(session: int) -> list[int]:
    """Live processes of a session."""
    found: list[int] = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[3]) == session and fields[0] != "Z":
            found.append(int(path.parent.name))
    return found
