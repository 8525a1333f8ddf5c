"""Stalls told from slowness on a real worker: what sleeps is killed, what works is waited for."""

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest

from refloat.config.schema import ModelConfig
from refloat.supervisor.fleet import Replica
from refloat.wire.faults import FaultKind
from refloat.wire.messages import Add, SamplingParams, pack_ids

pytestmark = pytest.mark.process

Supervise = Callable[..., AbstractAsyncContextManager[Any]]

FLOOR_S = 0.6


def run(scenario: Callable[[], Awaitable[None]]) -> None:
    async def whole() -> None:
        await scenario()

    asyncio.run(whole())


def scripted(*faults: dict[str, Any], **options: Any) -> ModelConfig:
    return ModelConfig(
        model="scripted", stall_floor_s=FLOOR_S, faults=list(faults), engine_options=options
    )


def add(replica: Replica, prompt: bytes = b"Hi", *, generation: int = 1) -> None:
    params = SamplingParams(max_tokens=4, temperature=0.0, stop_token_ids=(0,))
    replica.send(Add(generation, 1, pack_ids(list(prompt)), 0, params))


def has_ended(world: Any) -> bool:
    return any(output.ended for step in world.recorder.steps for output in step.outputs)


def test_prefill_far_over_the_floor_that_uses_the_processor_is_not_killed(
    supervise: Supervise,
) -> None:
    async def scenario() -> None:
        async with supervise(config=scripted(spin_s=2 * FLOOR_S)) as world:
            add(await world.until_ready())
            await world.until(lambda: has_ended(world))
            assert world.recorder.lost() == []
            assert "suspect" not in [event[0] for event in world.recorder.events]

    run(scenario)


def test_step_as_long_that_only_sleeps_is_killed(supervise: Supervise) -> None:
    async def scenario() -> None:
        config = scripted({"at": "step", "kind": "slow", "seconds": 20 * FLOOR_S})
        async with supervise(config=config) as world:
            first = await world.until_ready()
            add(first)
            await world.until_ready(times=2)
            assert world.recorder.lost() == [("lost", first.worker_id, FaultKind.STALL)]
            assert ("suspect", first.worker_id) in world.recorder.events

    run(scenario)


@pytest.mark.parametrize("moment", ["in a step", "idle, then asked"])
def test_stopped_worker_is_replaced(supervise: Supervise, moment: str) -> None:
    async def scenario() -> None:
        async with supervise(config=scripted(step_s=0.05)) as world:
            first = await world.until_ready()
            if moment == "in a step":
                add(first)
                await world.until(lambda: bool(world.recorder.steps))
            os.kill(world.pid, signal.SIGSTOP)
            add(first, generation=2)
            await world.until_ready(times=2)
            assert world.recorder.lost() == [("lost", first.worker_id, FaultKind.STALL)]

    run(scenario)


def test_step_over_the_floor_is_waited_for_where_steps_have_been_as_slow(
    supervise: Supervise,
) -> None:
    """Half the prompt takes half the floor. Once that is known, the whole prompt, which takes longer
    than the floor without any sign of life, is within what is predicted for it."""

    async def scenario() -> None:
        config = ModelConfig(
            model="scripted", stall_floor_s=1.0, engine_options={"prefill_s_per_1k": 2.4}
        )
        async with supervise(config=config) as world:
            replica = await world.until_ready()
            for number, tokens in ((1, 250), (2, 250), (3, 500)):
                world.recorder.steps.clear()
                add(replica, b"x" * tokens, generation=number)
                await world.until(lambda: has_ended(world))
            assert world.recorder.lost() == []

    run(scenario)


def test_step_over_the_floor_is_a_stall_where_nothing_is_known(supervise: Supervise) -> None:
    async def scenario() -> None:
        config = ModelConfig(
            model="scripted", stall_floor_s=1.0, engine_options={"prefill_s_per_1k": 5.0}
        )
        async with supervise(config=config) as world:
            first = await world.until_ready()
            add(first, b"x" * 500)
            await world.until_ready(times=2)
            assert world.recorder.lost() == [("lost", first.worker_id, FaultKind.STALL)]

    run(scenario)
