"""Who goes first and who has to make room: priorities, shares of the slots, and their settings."""

import asyncio
from collections import Counter

import pytest

from refloat.config.schema import ModelConfig, ServerConfig
from refloat.generation.limits import Limits, limits_for
from refloat.generation.preemption import Running, Shares, victim_of_shortage
from refloat.generation.session import Session
from tests.unit.generation.conftest import Stage

HASH = "ab" * 32


def running(stage: Stage, sessions: list[Session]) -> Counter[str]:
    """Slots of each tenant, those asked to leave not counted."""
    assert stage.replica is not None
    cancelled = {(cancel.generation, cancel.attempt) for cancel in stage.replica.cancels}
    there = {number for number, _ in set(stage.replica.running) - cancelled}
    return Counter(
        session.request.tenant
        for session in sessions
        for choice in session.choices
        if choice.journal.generation in there
    )


def test_higher_priority_goes_before_all_that_came_earlier(stage_of: type[Stage]) -> None:
    async def scene() -> None:
        stage = stage_of(max_num_seqs=1)
        replica = stage.ready()
        first = await stage.submit(max_tokens=2)
        usual = await stage.submit(max_tokens=2)
        urgent = await stage.submit(max_tokens=2, priority=3, tenant="other")
        same_tenant = await stage.submit(max_tokens=2, priority=5)
        stage.run_dry()
        sent = [add.generation for add in replica.adds]
        order = [first, same_tenant, urgent, usual]
        assert sent == [session.choices[0].journal.generation for session in order]
        for session in order:
            await stage.read(session)
        stage.assert_clean()

    asyncio.run(scene())


def test_shortage_stops_the_lowest_priority_and_never_the_oldest() -> None:
    shares = Shares({"a": 3}, {})
    assert (
        victim_of_shortage([Running(1, "a"), Running(2, "a", 1), Running(3, "a", 2)], shares) == 2
    )
    assert victim_of_shortage([Running(1, "a", -5), Running(2, "a"), Running(3, "a")], shares) == 3


def test_waiting_request_never_stops_one_of_higher_priority(stage_of: type[Stage]) -> None:
    async def scene() -> None:
        stage = stage_of(max_num_seqs=2)
        stage.ready()
        urgent = [await stage.submit(max_tokens=20, priority=1) for _ in range(2)]
        stage.step()
        other = await stage.submit(max_tokens=2, tenant="other")
        stage.step(3)
        assert running(stage, [*urgent, other]) == {"t": 2}
        for session in (*urgent, other):
            await stage.finish(session)

    asyncio.run(scene())


@pytest.mark.parametrize(("is_fair", "slots"), [(True, {"t": 3, "other": 1}), (False, {"t": 4})])
def test_tenant_that_waits_gets_a_slot_of_one_that_has_more_if_that_is_set(
    stage_of: type[Stage], is_fair: bool, slots: dict[str, int]
) -> None:
    async def scene() -> None:
        stage = stage_of(max_num_seqs=4, limits=Limits(is_fair=is_fair))
        stage.ready()
        sessions = [await stage.submit(max_tokens=30) for _ in range(6)]
        stage.step(2)
        sessions.append(await stage.submit(max_tokens=30, tenant="other"))
        stage.step(3)
        assert running(stage, sessions) == slots
        for session in sessions:
            await stage.finish(session)
        stage.assert_clean()

    asyncio.run(scene())


def test_slots_are_shared_by_the_weights_of_the_keys(stage_of: type[Stage]) -> None:
    keys = [{"name": "big", "sha256": HASH, "weight": 3.0}, {"name": "small", "sha256": HASH}]
    limits = limits_for(ModelConfig("m"), ServerConfig(keys=keys))

    async def scene() -> None:
        stage = stage_of(max_num_seqs=8, limits=limits)
        stage.ready()
        sessions = [
            await stage.submit(max_tokens=8, tenant=tenant)
            for _ in range(20)
            for tenant in ("key-small", "key-big")
        ]
        stage.step(12)
        assert running(stage, sessions) == {"key-big": 6, "key-small": 2}
        for session in sessions:
            await stage.finish(session)

    asyncio.run(scene())
