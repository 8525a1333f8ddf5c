"""The worker's faults, at every point of a generation's life."""

import asyncio

import pytest

from refloat.generation.events import FinishReason
from refloat.generation.limits import Limits
from refloat.supervisor.fleet import Availability
from refloat.wire.messages import Capabilities, Output, Refused
from refloat.wire.problem import Problem, ProblemKind
from tests.unit.generation.conftest import Stage, text_of, token_at

PROMPT = (1, 2, 3)


@pytest.mark.parametrize("steps", range(7))
def test_worker_lost_at_any_token_answer_is_whole_and_not_repeated(
    stage: Stage, steps: int
) -> None:
    async def scene() -> None:
        session = await stage.submit(PROMPT, max_tokens=6)
        if steps < 6:
            stage.step(steps)
        else:
            stage.step(6)
        stage.lose()
        replica = stage.ready()
        assert [add.offset for add in replica.adds] == ([steps] if steps < 6 else [])
        answer = await stage.finish(session)
        assert answer.text() == text_of(PROMPT, 6)
        assert answer.reasons() == {0: FinishReason.LENGTH}
        assert answer.completed.usage.completion_tokens == 6
        stage.assert_clean()

    asyncio.run(scene())


def test_worker_lost_while_queued_keeps_the_place_in_line(stage_of: type[Stage]) -> None:
    stage = stage_of(max_num_seqs=1)
    stage.ready()

    async def scene() -> None:
        first = await stage.submit(PROMPT)
        second = await stage.submit((4, 5))
        stage.step()
        stage.lose()
        replica = stage.ready()
        assert [add.generation for add in replica.adds] == [first.choices[0].journal.generation]
        assert (await stage.finish(first)).text() == text_of(PROMPT, 4)
        assert (await stage.finish(second)).text() == text_of((4, 5), 4)
        stage.assert_clean()

    asyncio.run(scene())


def test_worker_lost_after_stop_string_before_ended_changes_nothing(stage: Stage) -> None:
    async def scene() -> None:
        stop = text_of(PROMPT, 3)[-1]
        session = await stage.submit(PROMPT, max_tokens=9, stop=(stop,))
        stage.step(3)
        replica = stage.replica
        assert replica is not None
        assert len(replica.cancels) == 1
        assert stage.metric("refloat_kv_blocks_used") > 0, "not free before its ended"
        stage.lose()
        assert stage.ready().adds == []
        answer = await stage.read(session)
        assert answer.text() == text_of(PROMPT, 2)
        assert answer.reasons() == {0: FinishReason.STOP}
        stage.assert_clean()

    asyncio.run(scene())


def test_worker_lost_during_cancel_sends_nothing_again(stage: Stage) -> None:
    async def scene() -> None:
        session = await stage.submit(PROMPT)
        stage.step()
        session.cancel()
        stage.lose()
        assert stage.ready().adds == []
        assert (await stage.read(session)).problem.kind is ProblemKind.CLIENT_CLOSED
        stage.assert_clean()

    asyncio.run(scene())


def test_parked_work_goes_before_queued_oldest_first(stage_of: type[Stage]) -> None:
    stage = stage_of(max_num_seqs=2)
    stage.ready()

    async def scene() -> None:
        sessions = [await stage.submit((n, n), max_tokens=5) for n in (1, 2, 3, 4)]
        stage.step()
        stage.lose()
        replica = stage.ready()
        generations = [session.choices[0].journal.generation for session in sessions]
        assert [add.generation for add in replica.adds] == generations[:2]
        stage.run_dry()
        assert [add.generation for add in replica.adds] == generations
        for n, session in zip((1, 2, 3, 4), sessions, strict=True):
            assert (await stage.read(session)).text() == text_of((n, n), 5)

    asyncio.run(scene())


def test_late_frame_of_a_lost_worker_is_ignored(stage: Stage) -> None:
    async def scene() -> None:
        session = await stage.submit(PROMPT)
        old = stage.replica
        assert old is not None
        stage.step()
        late = old.step()
        stage.lose()
        stage.dispatch.replica_step(old.worker_id, late)
        stage.ready()
        stage.dispatch.replica_step(old.worker_id, late)
        assert (await stage.finish(session)).text() == text_of(PROMPT, 4)

    asyncio.run(scene())


def test_late_output_of_an_old_attempt_on_the_same_worker_is_ignored(stage: Stage) -> None:
    async def scene() -> None:
        session = await stage.submit(PROMPT)
        stage.step()
        generation = session.choices[0].journal.generation
        gap = Output(generation, 1, 3, (token_at(PROMPT, 3),))
        stage.tell(gap)  # attempt 1 is given up, attempt 2 begins
        stage.tell(Output(generation, 1, 1, (token_at(PROMPT, 1),)))
        assert session.tokens_emitted == 1
        assert (await stage.finish(session)).text() == text_of(PROMPT, 4)
        stage.assert_clean()

    asyncio.run(scene())


def test_output_twice_is_never_told_twice(stage: Stage) -> None:
    async def scene() -> None:
        session = await stage.submit(PROMPT)
        assert stage.replica is not None
        frame = stage.replica.step()
        stage.dispatch.replica_step(stage.replica.worker_id, frame)
        stage.dispatch.replica_step(stage.replica.worker_id, frame)
        assert (await stage.finish(session)).text() == text_of(PROMPT, 4)
        assert [add.offset for add in stage.replica.adds] == [0, 1]
        stage.assert_clean()

    asyncio.run(scene())


def test_offset_gap_again_fails_the_generation(stage: Stage) -> None:
    async def scene() -> None:
        session = await stage.submit(PROMPT)
        generation = session.choices[0].journal.generation
        stage.step()
        stage.tell(Output(generation, 1, 3, (1,)))
        stage.tell(Output(generation, 2, 3, (1,)))
        problem = (await stage.read(session)).problem
        assert problem.kind is ProblemKind.ENGINE_ERROR
        assert problem.tokens_emitted == 1
        stage.run_dry()
        stage.assert_clean()

    asyncio.run(scene())


@pytest.mark.parametrize("word", ["ignored", "stop", "length", "cancelled"])
def test_end_that_the_journal_does_not_agree_with_is_resumed_once(stage: Stage, word: str) -> None:
    async def scene() -> None:
        session = await stage.submit(PROMPT)
        replica = stage.replica
        assert replica is not None
        generation = session.choices[0].journal.generation
        stage.step()
        del replica.running[generation, 1]
        stage.tell(Output(generation, 1, 1, (), None, word))
        assert [add.offset for add in replica.adds] == [0, 1]
        assert replica.cancels == [], "the engine has ended it already"
        assert (await stage.finish(session)).text() == text_of(PROMPT, 4)
        stage.assert_clean()

    asyncio.run(scene())


def test_end_that_the_journal_does_not_agree_with_twice_fails(stage: Stage) -> None:
    async def scene() -> None:
        session = await stage.submit(PROMPT)
        replica = stage.replica
        assert replica is not None
        generation = session.choices[0].journal.generation
        for attempt in (1, 2):
            del replica.running[generation, attempt]
            stage.tell(Output(generation, attempt, 0, (), None, "ignored"))
        problem = (await stage.read(session)).problem
        assert problem.kind is ProblemKind.ENGINE_ERROR
        assert problem.tokens_emitted is None
        assert stage.metric("refloat_generations_total", state="failed") == 1
        stage.assert_clean()

    asyncio.run(scene())


def test_refused_by_the_engine_ends_that_request_alone(stage: Stage) -> None:
    async def scene() -> None:
        refused = await stage.submit(PROMPT, n=2)
        other = await stage.submit((5,))
        replica = stage.replica
        assert replica is not None
        key = (refused.choices[1].journal.generation, 1)
        del replica.running[key]
        problem = Problem(ProblemKind.INVALID_REQUEST, "no", param="logit_bias")
        stage.dispatch.replica_refused(replica.worker_id, Refused(*key, problem))
        assert (await stage.read(refused)).problem == problem
        assert [c.generation for c in replica.cancels] == [key[0] - 1], "its sibling is cancelled"
        assert (await stage.finish(other)).text() == text_of((5,), 4)
        assert stage.metric("refloat_generations_total", state="failed") == 1
        assert stage.metric("refloat_generations_total", state="cancelled") == 1
        stage.assert_clean()

    asyncio.run(scene())


def test_refused_twice_or_of_another_attempt_does_nothing(stage: Stage) -> None:
    async def scene() -> None:
        session = await stage.submit(PROMPT)
        assert stage.replica is not None
        problem = Problem(ProblemKind.INVALID_REQUEST, "no")
        generation = session.choices[0].journal.generation
        for stranger in (Refused(generation, 7, problem), Refused(10**9, 1, problem)):
            stage.dispatch.replica_refused(stage.replica.worker_id, stranger)
        assert (await stage.finish(session)).text() == text_of(PROMPT, 4)

    asyncio.run(scene())


def test_model_not_back_within_the_hold_time_fails_with_what_was_told(stage: Stage) -> None:
    async def scene() -> None:
        running = await stage.submit(PROMPT)
        stage.step(2)
        stage.lose(retry_after_s=7.0)
        stage.clock.pass_s(29.9)
        stage.dispatch.sweep()
        assert running.terminal is None
        stage.clock.pass_s(0.2)
        stage.dispatch.sweep()
        problem = (await stage.read(running)).problem
        assert problem.kind is ProblemKind.MODEL_RECOVERING
        assert (problem.tokens_emitted, problem.resumable) == (2, True)
        assert problem.retry_after_s == 7.0
        stage.assert_clean()

    asyncio.run(scene())


def test_model_failed_ends_waiting_work_at_once(stage: Stage) -> None:
    async def scene() -> None:
        session = await stage.submit(PROMPT)
        stage.step()
        stage.lose(Availability.FAILED, reason="the device is gone")
        problem = (await stage.read(session)).problem
        assert problem.kind is ProblemKind.MODEL_FAILED
        assert "the device is gone" in problem.message
        stage.assert_clean()

    asyncio.run(scene())


def test_model_failed_after_the_loss_ends_parked_work(stage: Stage) -> None:
    async def scene() -> None:
        session = await stage.submit(PROMPT)
        stage.step()
        stage.lose()
        stage.publish(Availability.FAILED)
        assert (await stage.read(session)).problem.kind is ProblemKind.MODEL_FAILED

    asyncio.run(scene())


@pytest.mark.parametrize("steps", [0, 2])
def test_engine_without_resume_goes_on_only_from_the_start(
    stage_of: type[Stage], steps: int
) -> None:
    stage = stage_of(capabilities=Capabilities(token_resume=False))
    stage.ready()

    async def scene() -> None:
        session = await stage.submit(PROMPT)
        stage.step(steps)
        stage.lose()
        if steps:
            problem = (await stage.read(session)).problem
            assert problem.kind is ProblemKind.ENGINE_ERROR
            assert (problem.tokens_emitted, problem.resumable) == (2, False)
        else:
            stage.ready()
            assert (await stage.finish(session)).text() == text_of(PROMPT, 4)
        stage.assert_clean()

    asyncio.run(scene())


def test_worker_lost_again_and_again_without_a_token_gives_up(stage_of: type[Stage]) -> None:
    stage = stage_of(limits=Limits(max_resumes=3))

    async def scene() -> None:
        stage.ready()
        session = await stage.submit(PROMPT)
        for _ in range(3):
            stage.lose()
            stage.ready()
        assert session.terminal is None
        stage.step()  # a token in between starts the count anew
        for _ in range(3):
            stage.lose()
            stage.ready()
        assert session.terminal is None
        stage.lose()
        assert (await stage.read(session)).problem.kind is ProblemKind.ENGINE_ERROR
        stage.assert_clean()

    asyncio.run(scene())


def test_suspect_worker_keeps_its_work_and_gets_nothing_new(stage: Stage) -> None:
    async def scene() -> None:
        first = await stage.submit(PROMPT)
        replica = stage.replica
        assert replica is not None
        stage.dispatch.replica_suspect(replica.worker_id, suspect=True)
        second = await stage.submit((4, 5))
        stage.run_dry()
        assert (await stage.read(first)).text() == text_of(PROMPT, 4)
        assert len(replica.adds) == 1
        stage.dispatch.replica_suspect(replica.worker_id, suspect=False)
        assert (await stage.finish(second)).text() == text_of((4, 5), 4)

    asyncio.run(scene())


def test_cache_that_came_back_smaller_fails_what_never_fits(stage: Stage) -> None:
    async def scene() -> None:
        fresh = await stage.submit(PROMPT, max_tokens=100, n=1)
        begun = await stage.submit((4, 5), max_tokens=100)
        small = await stage.submit((6,), max_tokens=3)
        stage.step()
        assert stage.cache is not None
        stage.lose()
        stage.ready(cache=type(stage.cache)(block_size=4, num_blocks=8))
        for session in (fresh, begun):
            problem = (await stage.read(session)).problem
            assert problem.kind is ProblemKind.INSUFFICIENT_MEMORY
        assert (await stage.finish(small)).text() == text_of((6,), 3)
        stage.assert_clean()

    asyncio.run(scene())


def test_sampled_generation_goes_on_with_another_seed_greedy_with_the_same(stage: Stage) -> None:
    async def scene() -> None:
        await stage.submit(PROMPT, seed=5)
        await stage.submit((4, 5, 6), seed=5, temperature=0.0)
        first = stage.replica
        assert first is not None
        stage.step()
        stage.lose()
        second = stage.ready()
        assert [add.params.seed for add in first.adds] == [5, 5]
        assert second.adds[0].params.seed != 5
        assert second.adds[1].params.seed == 5

    asyncio.run(scene())
