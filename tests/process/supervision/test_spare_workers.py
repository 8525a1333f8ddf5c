"""Spares on real worker processes: what a loss costs, who is told, and what is built behind it."""

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest

from refloat.config.schema import ModelConfig
from refloat.supervisor.fleet import Availability, Replica, WorkerRole, WorkerSnapshot
from refloat.supervisor.lifecycle import WorkerState
from refloat.wire.faults import FaultKind
from refloat.wire.messages import Add, SamplingParams, pack_ids

pytestmark = pytest.mark.process

Supervise = Callable[..., AbstractAsyncContextManager[Any]]
Make = Callable[..., Any]


def run(scenario: Callable[[], Awaitable[None]]) -> None:
    async def whole() -> None:
        await scenario()

    asyncio.run(whole())


def spared(spares: Any = 1, *faults: dict[str, Any], **options: Any) -> ModelConfig:
    return ModelConfig(model="scripted", spares=spares, faults=list(faults), engine_options=options)


def add(replica: Replica, generation: int = 1) -> None:
    params = SamplingParams(max_tokens=8, temperature=0.0, stop_token_ids=(0,))
    replica.send(Add(generation, 1, pack_ids(list(b"Hi")), 0, params))


def spare_of(world: Any) -> WorkerSnapshot | None:
    spares = [w for w in world.snapshot.workers if w.role is WorkerRole.SPARE]
    return spares[0] if spares else None


async def until_spare(world: Any, state: WorkerState = WorkerState.READY) -> WorkerSnapshot:
    def is_there() -> bool:
        spare = spare_of(world)
        return spare is not None and spare.state is state and spare.pid is not None

    await world.until(is_there)
    spare = spare_of(world)
    assert spare is not None
    return spare


def kinds(world: Any) -> list[Any]:
    return [event[:2] for event in world.recorder.events if event[0] in ("ready", "lost")]


def test_spare_is_built_behind_the_worker_that_serves_and_told_to_nobody(
    supervise: Supervise,
) -> None:
    async def scenario() -> None:
        async with supervise(config=spared()) as world:
            first = await world.until_ready()
            spare = await until_spare(world)
            assert spare.worker_id != first.worker_id
            assert world.snapshot.workers[0].role is WorkerRole.SERVING
            assert world.snapshot.workers[0].worker_id == first.worker_id
            assert kinds(world) == [("ready", first.worker_id)]
            metrics = world.metrics.render().decode()
            assert 'refloat_worker_state{model="m",state="ready"} 2.0' in metrics

    run(scenario)


def test_spare_takes_over_at_once_and_another_is_built_behind_it(supervise: Supervise) -> None:
    """The new spare's load takes for ever, so the take-over cannot have waited for it."""

    async def scenario() -> None:
        hang = {"at": "load", "kind": "hang", "skip": 2}
        async with supervise(config=spared(1, hang)) as world:
            first = await world.until_ready()
            spare = await until_spare(world)
            os.kill(world.pid, signal.SIGKILL)
            second = await world.until_ready(times=2)
            assert second.worker_id == spare.worker_id
            assert kinds(world) == [
                ("ready", first.worker_id),
                ("lost", first.worker_id),
                ("ready", spare.worker_id),
            ]
            assert Availability.RECOVERING in [
                event[1] for event in world.recorder.events if event[0] == "model"
            ]
            built = await until_spare(world, WorkerState.LOADING)
            assert built.worker_id not in (first.worker_id, spare.worker_id)
            add(second)
            await world.until(lambda: bool(world.recorder.steps))

    run(scenario)


def test_spare_that_dies_is_replaced_and_nobody_notices(supervise: Supervise) -> None:
    async def scenario() -> None:
        async with supervise(config=spared()) as world:
            await world.until_ready()
            spare = await until_spare(world)
            assert spare.pid is not None
            before = list(world.recorder.events)
            os.kill(spare.pid, signal.SIGKILL)
            await world.until(lambda: world.snapshot.restarts == {FaultKind.DEATH: 1})
            again = await until_spare(world)
            assert again.worker_id > spare.worker_id
            assert world.recorder.events == before
            assert world.snapshot.availability is Availability.READY
            assert world.snapshot.reason is None

    run(scenario)


def test_both_killed_at_once_cost_no_more_than_a_cold_start(supervise: Supervise) -> None:
    async def scenario() -> None:
        async with supervise(config=spared()) as world:
            first = await world.until_ready()
            spare = await until_spare(world)
            old = {first.worker_id, spare.worker_id}
            for worker in world.snapshot.workers:
                os.kill(worker.pid, signal.SIGKILL)
            await world.until(
                lambda: (
                    world.snapshot.availability is Availability.READY
                    and world.recorder.replicas[-1].worker_id not in old
                )
            )
            await until_spare(world)
            told = kinds(world)
            assert told[:2] == [("ready", first.worker_id), ("lost", first.worker_id)]
            assert [what for what, _ in told].count("ready") == len(told) - len(
                world.recorder.lost()
            )
            assert world.snapshot.restarts == {FaultKind.DEATH: 2}

    run(scenario)


def test_fault_that_took_the_serving_worker_is_spent_for_its_spare(supervise: Supervise) -> None:
    async def scenario() -> None:
        async with supervise(config=spared(1, {"at": "step", "kind": "kill"})) as world:
            first = await world.until_ready()
            await until_spare(world)
            add(first)
            second = await world.until_ready(times=2)
            add(second, generation=2)
            await world.until(
                lambda: any(o.ended for step in world.recorder.steps for o in step.outputs)
            )
            assert len(world.recorder.lost()) == 1

    run(scenario)


def test_worker_that_hangs_is_not_ready_until_its_spare_has_taken_over(
    supervise: Supervise,
) -> None:
    async def scenario() -> None:
        config = ModelConfig(
            model="scripted",
            spares=1,
            stall_floor_s=0.6,
            faults=[{"at": "step", "kind": "hang"}],
        )
        async with supervise(config=config) as world:
            first = await world.until_ready()
            await until_spare(world)
            add(first)
            await world.until_ready(times=2)
            told = [event[0] for event in world.recorder.events if event[0] != "model"]
            assert told == ["ready", "suspect", "lost", "ready"]

    run(scenario)


def test_spare_that_cannot_be_loaded_leaves_the_model_ready_and_says_why(
    supervise: Supervise,
) -> None:
    async def scenario() -> None:
        fault = {"at": "load", "kind": "raise", "skip": 1, "times": 50, "message": "no room"}
        async with supervise(config=spared(1, fault)) as world:
            replica = await world.until_ready()
            spare = await until_failed_spare(world)
            assert spare.cause is FaultKind.LOAD_FAILED
            assert spare.reason == "no room"
            assert world.snapshot.availability is Availability.READY
            assert world.snapshot.reason is None
            add(replica)
            await world.until(lambda: bool(world.recorder.steps))

    run(scenario)


async def until_failed_spare(world: Any) -> WorkerSnapshot:
    def has_failed() -> bool:
        spare = spare_of(world)
        return spare is not None and spare.state is WorkerState.FAILED

    await world.until(has_failed)
    spare = spare_of(world)
    assert spare is not None
    return spare


def test_primed_spare_has_read_the_files_and_loads_when_it_is_needed(
    supervise: Supervise,
) -> None:
    async def scenario() -> None:
        async with supervise(config=spared("primed")) as world:
            first = await world.until_ready()
            spare = await until_spare(world, WorkerState.LOADING)
            await world.until(lambda: (spare_of(world) or spare).waits_for is not None)
            os.kill(world.pid, signal.SIGKILL)
            second = await world.until_ready(times=2)
            assert second.worker_id == spare.worker_id
            assert kinds(world) == [
                ("ready", first.worker_id),
                ("lost", first.worker_id),
                ("ready", second.worker_id),
            ]
            behind = await until_spare(world, WorkerState.LOADING)
            assert behind.waits_for == "is primed and waits until it is needed"
            assert behind.load_s is None
            assert world.snapshot.availability is Availability.READY

    run(scenario)


def test_primed_spare_that_dies_waiting_is_replaced(supervise: Supervise) -> None:
    async def scenario() -> None:
        async with supervise(config=spared("primed")) as world:
            first = await world.until_ready()
            spare = await until_spare(world, WorkerState.LOADING)
            assert spare.pid is not None
            os.kill(spare.pid, signal.SIGKILL)
            await world.until(
                lambda: (
                    (spare_of(world) or spare).worker_id > spare.worker_id
                    and (spare_of(world) or spare).waits_for is not None
                )
            )
            assert kinds(world) == [("ready", first.worker_id)]

    run(scenario)


@pytest.mark.parametrize("spares", [1, "primed"])
def test_stop_ends_spares_too(supervise: Supervise, spares: Any) -> None:
    pids: list[int] = []

    async def scenario() -> None:
        async with supervise(config=spared(spares)) as world:
            first = await world.until_ready()
            state = WorkerState.READY if spares == 1 else WorkerState.LOADING
            await until_spare(world, state)
            pids.extend(worker.pid for worker in world.snapshot.workers)
            await world.supervisor.stop(10.0)
            await world.task
            assert kinds(world) == [("ready", first.worker_id), ("lost", first.worker_id)]
            assert world.snapshot.restarts == {}

    run(scenario)
    assert len(pids) == 2
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids)


def test_stop_before_there_is_a_spare_returns(
    supervise: Supervise, odd_command: Make, knobs: Make
) -> None:
    async def scenario() -> None:
        quick = knobs(worker_command=odd_command("silent"))
        async with supervise(knobs=quick, config=spared()) as world:
            await world.supervisor.stop(0.4)
            await world.task
            assert len(world.snapshot.workers) == 1

    run(scenario)
