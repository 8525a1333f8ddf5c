"""Suspects in custody: who is sent where after a fault, and what the innocent notice of it."""

import asyncio
from collections.abc import Callable, Iterable

import pytest

from refloat.generation.limits import Limits
from refloat.generation.session import Session
from refloat.supervisor.fleet import Rebuild, ReplicaLoss
from refloat.wire.faults import FaultKind
from refloat.wire.messages import Capabilities
from refloat.wire.problem import ProblemKind
from tests.unit.generation.conftest import EngineReplica, Stage, text_of

Fatal = Callable[[EngineReplica, tuple[int, int]], bool]


def fatal_at(generations: Iterable[int], position: int) -> Fatal:
    """These end their worker in the step for the token at this position."""
    poisonous = set(generations)

    def is_fatal(replica: EngineReplica, key: tuple[int, int]) -> bool:
        return key[0] in poisonous and replica.running[key].position == position

    return is_fatal


def numbers_of(*sessions: Session) -> list[int]:
    return [choice.journal.generation for session in sessions for choice in session.choices]


def fault_twice(stage: Stage, *batch: Session) -> EngineReplica:
    """The worker that comes after two in a row were lost in a step of this batch."""
    stage.fault(*numbers_of(*batch))
    stage.ready()
    stage.fault(*numbers_of(*batch))
    return stage.ready()


def run_all(stage: Stage, is_fatal: Fatal, *, stops_at: int = 100) -> list[Rebuild]:
    """Step, and rebuild after each fault, until nothing runs; what each fault led to."""
    faults: list[Rebuild] = []
    for _ in range(10_000):
        replica = stage.replica
        assert replica is not None
        if not replica.running:
            return faults
        if any(is_fatal(replica, key) for key in replica.running):
            faults.append(stage.fault(*(generation for generation, _ in replica.running)))
            assert len(faults) < stops_at, faults
            stage.ready()
            continue
        stage.step()
    raise AssertionError("does not end")


@pytest.mark.parametrize("position", [0, 3, 7])
@pytest.mark.parametrize("who", [0, 7, 15])
def test_one_poison_among_sixteen_costs_four_workers_and_no_other_answer(
    stage_of: type[Stage], position: int, who: int
) -> None:
    stage = stage_of(max_num_seqs=16, blocks=200)
    stage.ready()

    async def scene() -> None:
        sessions = [await stage.submit((n, 1), max_tokens=8) for n in range(16)]
        guilty = sessions.pop(who)
        faults = run_all(stage, fatal_at(numbers_of(guilty), position))
        assert faults == [Rebuild.SAME, Rebuild.SAME, Rebuild.SAFER, Rebuild.CLEARED]
        problem = (await stage.read(guilty)).problem
        assert problem.kind is ProblemKind.POISON_REQUEST
        assert problem.resumable is False
        assert problem.tokens_emitted == (position or None)
        for session in sessions:
            prompt = session.choices[0].journal.prompt
            assert (await stage.read(session)).text() == text_of(prompt, 8)
        assert stage.metric("refloat_convictions_total") == 1
        stage.assert_clean()

    asyncio.run(scene())


def test_poison_by_itself_is_convicted_after_a_safer_try(stage: Stage) -> None:
    async def scene() -> None:
        guilty = await stage.submit((1, 2))
        faults = run_all(stage, fatal_at(numbers_of(guilty), 2))
        assert faults == [Rebuild.SAME, Rebuild.SAFER, Rebuild.CLEARED]
        assert (await stage.read(guilty)).problem.kind is ProblemKind.POISON_REQUEST

    asyncio.run(scene())


def test_poison_with_several_choices_is_one_conviction(stage: Stage) -> None:
    async def scene() -> None:
        guilty = await stage.submit((1, 2), n=3)
        other = await stage.submit((3, 4))
        faults = run_all(stage, fatal_at(numbers_of(guilty), 1))
        assert len(faults) == 4
        assert (await stage.read(guilty)).problem.kind is ProblemKind.POISON_REQUEST
        assert stage.metric("refloat_convictions_total") == 1
        assert stage.metric("refloat_generations_total", state="cancelled") == 2
        assert (await stage.read(other)).text() == text_of((3, 4), 4)
        stage.assert_clean()

    asyncio.run(scene())


def test_conviction_carries_the_incident(stage: Stage) -> None:
    async def scene() -> None:
        guilty = await stage.submit((1, 2))
        for _ in range(3):
            stage.lose_by(ReplicaLoss(FaultKind.STEP_FAULT, "raised", incident_id="i-1"))
            stage.ready()
        assert (await stage.read(guilty)).problem.incident_id == "i-1"

    asyncio.run(scene())


def test_what_only_ends_a_worker_at_full_speed_is_answered_on_a_safer_one(stage: Stage) -> None:
    rebuilds = [Rebuild.SAME]

    async def scene() -> None:
        hungry = await stage.submit((1, 2), max_tokens=8)
        others = [await stage.submit((n, 3), max_tokens=8) for n in range(4, 7)]
        number = numbers_of(hungry)[0]

        def is_fatal(replica: EngineReplica, key: tuple[int, int]) -> bool:
            is_at_full_speed = Rebuild.SAFER not in rebuilds
            return is_at_full_speed and key[0] == number and replica.running[key].position == 2

        while stage.replica is not None and stage.replica.running:
            replica = stage.replica
            if any(is_fatal(replica, key) for key in replica.running):
                rebuilds.append(stage.fault(*(generation for generation, _ in replica.running)))
                stage.ready()
            else:
                stage.step()
        assert rebuilds[1:] == [Rebuild.SAME, Rebuild.SAME, Rebuild.SAFER]
        for session in (hungry, *others):
            prompt = session.choices[0].journal.prompt
            assert (await stage.read(session)).text() == text_of(prompt, 8)
        stage.assert_clean()

    asyncio.run(scene())


def test_nobody_else_is_sent_to_the_replica_of_a_suspect_that_runs_alone(stage: Stage) -> None:
    async def scene() -> None:
        first = await stage.submit((1, 2), max_tokens=9)
        second = await stage.submit((3, 4), max_tokens=9)
        replica = fault_twice(stage, first, second)
        new = await stage.submit((5, 6), max_tokens=9)
        assert [key[0] for key in replica.running] == numbers_of(second), "the youngest, alone"
        stage.step(2)
        assert replica.cancels, "acquitted: it makes room for the next"
        stage.step()
        assert [key[0] for key in replica.running] == numbers_of(first)
        stage.step(2)
        running = {key[0] for key in replica.running}
        assert running == set(numbers_of(first, second, new)), "all are acquitted"
        for session in (first, second, new):
            prompt = session.choices[0].journal.prompt
            assert (await stage.finish(session)).text() == text_of(prompt, 9)
        stage.assert_clean()

    asyncio.run(scene())


def test_suspect_whose_client_leaves_makes_room_at_once(stage: Stage) -> None:
    async def scene() -> None:
        first = await stage.submit((1, 2))
        second = await stage.submit((3, 4))
        replica = fault_twice(stage, first, second)
        second.cancel()
        stage.step()
        assert [key[0] for key in replica.running] == numbers_of(first)
        first.cancel()
        third = await stage.submit((5, 6))
        assert (await stage.finish(third)).text() == text_of((5, 6), 4)
        stage.assert_clean()

    asyncio.run(scene())


def test_deadlines_hold_for_those_who_wait_for_a_suspect(stage: Stage) -> None:
    async def scene() -> None:
        first = await stage.submit((1, 2), deadline_s=20.0)
        second = await stage.submit((3, 4), deadline_s=10.0)
        fault_twice(stage, first, second)
        queued = await stage.submit((5, 6), deadline_s=5.0)
        stage.clock.pass_s(11.0)
        stage.dispatch.sweep()
        for session in (second, queued):
            assert (await stage.read(session)).problem.kind is ProblemKind.DEADLINE_EXCEEDED
        stage.step()
        assert (await stage.finish(first)).text() == text_of((1, 2), 4)
        stage.assert_clean()

    asyncio.run(scene())


def test_suspect_that_the_next_cache_cannot_hold_does_not_block_the_others(stage: Stage) -> None:
    async def scene() -> None:
        small = await stage.submit((1, 2), max_tokens=4)
        large = await stage.submit((3, 4), max_tokens=100)
        stage.fault(*numbers_of(small, large))
        stage.ready()
        stage.fault(*numbers_of(small, large))
        assert stage.cache is not None
        stage.ready(cache=type(stage.cache)(block_size=4, num_blocks=8))
        problem = (await stage.read(large)).problem
        assert problem.kind is ProblemKind.CONTEXT_LENGTH_EXCEEDED or problem.resumable
        assert (await stage.finish(small)).text() == text_of((1, 2), 4)
        stage.assert_clean()

    asyncio.run(scene())


def test_engine_that_cannot_resume_lets_the_acquitted_finish_alone(
    stage_of: type[Stage],
) -> None:
    stage = stage_of(capabilities=Capabilities(token_resume=False))
    stage.ready()

    async def scene() -> None:
        sessions = [await stage.submit((n, 2), max_tokens=6) for n in (1, 2, 3)]
        replica = fault_twice(stage, *sessions)
        assert len(replica.running) == 1
        for session in sessions:
            prompt = session.choices[0].journal.prompt
            assert (await stage.finish(session)).text() == text_of(prompt, 6)
        assert [add.offset for add in replica.adds] == [0, 0, 0], "nothing was begun again"
        stage.assert_clean()

    asyncio.run(scene())


def test_second_replica_goes_on_serving_while_one_is_kept_for_a_suspect(
    stage_of: type[Stage],
) -> None:
    stage = stage_of(max_num_seqs=2)

    async def scene() -> None:
        stage.ready()
        healthy = stage.replica
        assert healthy is not None
        calm = [await stage.submit((n, 9), max_tokens=30) for n in (1, 2)]
        stage.ready()
        suspects = [await stage.submit((n, 2), max_tokens=9) for n in (3, 4)]
        ready = fault_twice(stage, *suspects)
        new = await stage.submit((6, 6), max_tokens=3)
        assert [key[0] for key in ready.running] == numbers_of(suspects[1])
        calm[0].cancel()
        stage.dispatch.replica_step(healthy.worker_id, healthy.step())
        assert [key[0] for key in healthy.running] == numbers_of(calm[1], new)
        stage.run_dry()
        for _ in range(40):
            stage.dispatch.replica_step(healthy.worker_id, healthy.step())
            if ready.running:
                stage.step()
        for session in suspects:
            prompt = session.choices[0].journal.prompt
            assert (await stage.read(session)).text() == text_of(prompt, 9)
        assert (await stage.read(new)).text() == text_of((6, 6), 3)
        assert (await stage.read(calm[1])).text() == text_of((2, 9), 30)
        stage.assert_clean()

    asyncio.run(scene())


def test_many_suspects_in_ever_other_batches_end_within_the_tries_there_are(
    stage_of: type[Stage],
) -> None:
    """A worker that dies of everything: nobody waits for ever, and nobody is tried for ever."""
    stage = stage_of(limits=Limits(max_resumes=3), max_num_seqs=4)
    stage.ready()

    async def scene() -> None:
        sessions = [await stage.submit((n, 1)) for n in range(12)]
        faults = run_all(stage, lambda replica, key: True, stops_at=200)
        assert len(faults) <= 12 * 4
        for session in sessions:
            kind = (await stage.read(session)).problem.kind
            assert kind in (ProblemKind.POISON_REQUEST, ProblemKind.ENGINE_ERROR)
        stage.assert_clean()

    asyncio.run(scene())


def test_signals_from_outside_convict_nobody_however_often(stage: Stage) -> None:
    async def scene() -> None:
        session = await stage.submit((1, 2), max_tokens=40)
        for _ in range(20):
            assert stage.lose() is Rebuild.SAME
            stage.ready()
            stage.step()
        assert (await stage.finish(session)).text() == text_of((1, 2), 40)
        assert stage.metric("refloat_convictions_total") == 0

    asyncio.run(scene())


def test_tenant_of_three_convictions_waits_and_others_do_not(stage: Stage) -> None:
    async def scene() -> None:
        for _ in range(3):
            guilty = await stage.submit((1, 2), tenant="bad")
            run_all(stage, fatal_at(numbers_of(guilty), 0))
            assert (await stage.read(guilty)).problem.kind is ProblemKind.POISON_REQUEST
        problem = await stage.refusal((1, 2), tenant="bad")
        assert problem.kind is ProblemKind.TENANT_SUSPENDED
        assert problem.retry_after_s == 600.0
        good = await stage.submit((1, 2), tenant="good")
        assert (await stage.finish(good)).text() == text_of((1, 2), 4)
        stage.clock.pass_s(600.0)
        later = await stage.submit((1, 2), tenant="bad")
        assert (await stage.finish(later)).text() == text_of((1, 2), 4)
        stage.assert_clean()

    asyncio.run(scene())
