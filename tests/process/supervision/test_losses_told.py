"""What generations are told of a loss, and what their answer does to the next worker and the budget."""

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest

from refloat.config.schema import ModelConfig
from refloat.supervisor.fleet import Availability, Rebuild, Replica
from refloat.wire.faults import FaultKind
from refloat.wire.messages import Add, SamplingParams, pack_ids

pytestmark = pytest.mark.process

Supervise = Callable[..., AbstractAsyncContextManager[Any]]
Make = Callable[..., Any]


def run(scenario: Callable[[], Awaitable[None]]) -> None:
    async def whole() -> None:
        await scenario()

    asyncio.run(whole())


def scripted(*faults: dict[str, Any], **settings: Any) -> ModelConfig:
    return ModelConfig(model="scripted", faults=list(faults), **settings)


def add(replica: Replica, *generations: int) -> None:
    params = SamplingParams(max_tokens=50, temperature=0.0, stop_token_ids=(0,))
    for generation in generations:
        replica.send(Add(generation, 1, pack_ids(list(b"Count from 1 to 30")), 0, params))


@pytest.mark.parametrize("kind", ["raise", "context_fatal", "segv", "abort", "exit", "garbage"])
def test_fault_in_a_step_is_told_with_its_batch_and_is_the_workers_own(
    supervise: Supervise, kind: str
) -> None:
    async def scenario() -> None:
        plan = {"at": "token", "token": 5, "kind": kind}
        config = scripted(plan, engine_options={"step_s": 0.05})
        async with supervise(config=config) as world:
            add(await world.until_ready(), 7, 9)
            await world.until_ready(times=2)
            [loss] = world.recorder.losses
            assert set(loss.batch) == {7, 9}
            assert not loss.is_external

    run(scenario)


def test_link_that_is_closed_by_a_worker_that_lives_on_is_its_own_fault(
    supervise: Supervise,
) -> None:
    async def scenario() -> None:
        config = scripted({"at": "step", "kind": "close_socket"})
        async with supervise(config=config) as world:
            first = await world.until_ready()
            add(first, 7)
            await world.until_ready(times=2)
            [loss] = world.recorder.losses
            assert (loss.cause, loss.batch, loss.is_external) == (FaultKind.DEATH, (7,), False)
            told = [event for event in world.recorder.events if event[0] in ("suspect", "lost")]
            assert told == [
                ("suspect", first.worker_id),
                ("lost", first.worker_id, FaultKind.DEATH),
            ]

    run(scenario)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_signal_from_outside_is_told_as_that(supervise: Supervise, number: int) -> None:
    async def scenario() -> None:
        config = scripted(engine_options={"step_s": 0.02})
        async with supervise(config=config) as world:
            add(await world.until_ready(), 7)
            await world.until(lambda: bool(world.recorder.steps))
            os.kill(world.pid, number)
            await world.until_ready(times=2)
            [loss] = world.recorder.losses
            assert loss.is_external
            assert signal.Signals(number).name in loss.reason

    run(scenario)


def test_stop_signal_from_outside_suspects_nobody(supervise: Supervise) -> None:
    async def scenario() -> None:
        config = scripted(engine_options={"step_s": 0.02}, stall_floor_s=0.6)
        async with supervise(config=config) as world:
            add(await world.until_ready(), 7)
            await world.until(lambda: bool(world.recorder.steps))
            os.kill(world.pid, signal.SIGSTOP)
            await world.until_ready(times=2)
            [loss] = world.recorder.losses
            assert (loss.cause, loss.is_external) == (FaultKind.STALL, True)

    run(scenario)


def test_idle_worker_is_lost_with_nobody_named(supervise: Supervise) -> None:
    async def scenario() -> None:
        async with supervise(config=scripted()) as world:
            await world.until_ready()
            os.kill(world.pid, signal.SIGSEGV)
            await world.until_ready(times=2)
            [loss] = world.recorder.losses
            assert (loss.batch, loss.is_external) == ((), False)

    run(scenario)


def test_safer_worker_has_the_next_rung_and_cleared_takes_it_back(supervise: Supervise) -> None:
    async def scenario() -> None:
        async with supervise(config=scripted(max_num_seqs=16)) as world:
            for times, (rebuild, rung, seqs) in enumerate(
                [
                    (Rebuild.SAFER, 1, 16),
                    (Rebuild.SAFER, 2, 4),
                    (Rebuild.CLEARED, 1, 16),
                    (Rebuild.SAME, 1, 16),
                    (Rebuild.SAFER, 2, 4),
                    (Rebuild.SAFER, 2, 4),
                ],
                start=1,
            ):
                add(await world.until_ready(times=times), times)
                await world.until(lambda: bool(world.recorder.steps))
                world.recorder.steps.clear()
                world.recorder.rebuild = rebuild
                os.kill(world.pid, signal.SIGSEGV)
                replica = await world.until_ready(times=times + 1)
                assert (world.snapshot.rung, replica.max_num_seqs) == (rung, seqs)
                assert world.snapshot.facts.max_num_seqs == seqs
            text = world.metrics.render().decode()
            assert 'refloat_ladder_rung{model="m"} 2.0' in text

    run(scenario)


@pytest.mark.parametrize("rebuild", [Rebuild.SAFER, Rebuild.CLEARED])
def test_losses_that_a_suspect_explains_open_no_breaker(
    supervise: Supervise, rebuild: Rebuild
) -> None:
    """The limit is three here, and none of these workers brings a token."""

    async def scenario() -> None:
        config = scripted({"at": "step", "kind": "segv", "times": 5})
        async with supervise(config=config) as world:
            world.recorder.rebuild = rebuild
            for times in range(1, 6):
                add(await world.until_ready(times=times), times)
            await world.until_ready(times=6)
            assert Availability.FAILED not in {
                event[1] for event in world.recorder.events if event[0] == "model"
            }

    run(scenario)


def test_many_losses_with_progress_between_them_open_no_breaker(supervise: Supervise) -> None:
    """The limit is three here; fifty of them are counted in `test_slot_history.py`."""

    async def scenario() -> None:
        async with supervise(config=scripted(engine_options={"step_s": 0.01})) as world:
            for times in range(1, 9):
                add(await world.until_ready(times=times), times)
                await world.until(lambda: bool(world.recorder.steps))
                world.recorder.steps.clear()
                os.kill(world.pid, signal.SIGKILL)
            await world.until_ready(times=9)
            assert Availability.FAILED not in {
                event[1] for event in world.recorder.events if event[0] == "model"
            }

    run(scenario)


def test_open_breaker_tries_once_after_the_cool_down_and_opens_again_at_one_more_fault(
    supervise: Supervise, knobs: Make
) -> None:
    async def scenario() -> None:
        # Four loads fail: three open the breaker, one more is tried after the cool-down.
        config = scripted({"at": "load", "kind": "raise", "times": 4})
        async with supervise(config=config, knobs=knobs(cooldown_s=0.3)) as world:
            await world.until_ready()
            states = [event[1] for event in world.recorder.events if event[0] == "model"]
            assert states.count(Availability.FAILED) == 2
            assert world.snapshot.restarts == {FaultKind.LOAD_FAILED: 4}

    run(scenario)


def test_worker_replaced_for_its_memory_is_charged_to_nobody(supervise: Supervise) -> None:
    async def scenario() -> None:
        config = scripted(engine_options={"step_s": 0.05})
        async with supervise(config=config) as world:
            for time in range(1, 8):  # more than the crash budget has
                replica = await world.until_ready(times=time)
                add(replica, time)
                world.supervisor.replace_for_memory(replica.worker_id + 1, "of another worker")
                world.supervisor.replace_for_memory(replica.worker_id, "it holds too much")
            await world.until_ready(times=8)
            assert len(world.recorder.losses) == 7
            assert all(loss.is_external for loss in world.recorder.losses)
            assert {loss.cause for loss in world.recorder.losses} == {FaultKind.MEMORY_LIMIT}
            assert world.snapshot.availability is Availability.READY

    run(scenario)
