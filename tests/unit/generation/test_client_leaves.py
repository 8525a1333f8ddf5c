"""The client leaves, at every point; and whatever ends a session ends it once."""

import asyncio

import pytest

from refloat.generation.events import Completed, Failed
from refloat.supervisor.fleet import Availability
from refloat.wire.messages import Cancel, Capabilities
from refloat.wire.problem import ProblemKind
from tests.unit.generation.conftest import Stage, text_of

PROMPT = (1, 2, 3)


@pytest.mark.parametrize("steps", range(5))
def test_client_gone_at_any_token_frees_everything(stage: Stage, steps: int) -> None:
    async def scene() -> None:
        replica = stage.replica
        assert replica is not None
        session = await stage.submit(PROMPT)
        stage.step(steps)
        session.cancel()
        session.cancel()
        assert stage.dispatch.idle
        assert len(replica.cancels) == (1 if steps < 4 else 0)
        stage.run_dry()
        stage.assert_clean()
        assert stage.metric("refloat_aborted_total") == (1 if steps < 4 else 0)
        assert len(replica.adds) == 1

    asyncio.run(scene())


def test_client_gone_while_queued_is_never_sent(stage_of: type[Stage]) -> None:
    stage = stage_of(max_num_seqs=1)
    replica = stage.ready()

    async def scene() -> None:
        first = await stage.submit(PROMPT)
        second = await stage.submit((4,))
        third = await stage.submit((5,))
        second.cancel()
        assert stage.metric("refloat_waiting") == 1
        assert (await stage.finish(first)).text() == text_of(PROMPT, 4)
        assert (await stage.finish(third)).text() == text_of((5,), 4)
        sent = [add.generation for add in replica.adds]
        assert second.choices[0].journal.generation not in sent
        assert replica.cancels == []
        stage.assert_clean()

    asyncio.run(scene())


def test_client_gone_at_the_head_of_the_line_lets_the_next_go(stage_of: type[Stage]) -> None:
    stage = stage_of(blocks=10, block_size=4, context_length=40)
    replica = stage.ready()

    async def scene() -> None:
        await stage.submit(PROMPT, max_tokens=33)  # 9 of 10 blocks in the end
        large = await stage.submit((4,), max_tokens=27)  # both at a time come to 15
        small = await stage.submit((5,), max_tokens=3)
        assert len(replica.adds) == 1, "nobody overtakes"
        large.cancel()
        assert replica.adds[-1].generation == small.choices[0].journal.generation

    asyncio.run(scene())


def test_client_gone_while_parked_is_not_sent_again(stage: Stage) -> None:
    async def scene() -> None:
        session = await stage.submit(PROMPT)
        stage.step()
        stage.lose()
        session.cancel()
        assert stage.ready().adds == []
        stage.assert_clean()

    asyncio.run(scene())


def test_client_gone_keeps_its_blocks_until_the_worker_says_so(stage_of: type[Stage]) -> None:
    stage = stage_of(blocks=5, block_size=4, context_length=20)
    replica = stage.ready()

    async def scene() -> None:
        first = await stage.submit(PROMPT * 5, max_tokens=5)
        second = await stage.submit((4,), max_tokens=17)
        stage.step()
        first.cancel()
        assert len(replica.adds) == 1
        stage.step()
        assert len(replica.adds) == 2
        assert (await stage.finish(second)).text() == text_of((4,), 17)
        stage.assert_clean()

    asyncio.run(scene())


def test_cancel_wakes_a_reader_with_the_one_terminal_event(stage: Stage) -> None:
    async def scene() -> None:
        session = await stage.submit(PROMPT)
        reader = asyncio.ensure_future(session.next_events())
        await asyncio.sleep(0)
        session.cancel()
        events = await reader
        assert len(events) == 1
        assert isinstance(events[0], Failed)
        with pytest.raises(RuntimeError):
            await session.next_events()

    asyncio.run(scene())


def test_wait_for_events_cancelled_loses_none(stage: Stage) -> None:
    async def scene() -> None:
        session = await stage.submit(PROMPT)
        reader = asyncio.ensure_future(session.next_events())
        await asyncio.sleep(0)
        stage.step()  # the reader has been woken, but does not get to run
        reader.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reader
        assert (await stage.finish(session)).text() == text_of(PROMPT, 4)

    asyncio.run(scene())


def test_cancel_after_the_end_is_not_an_abort(stage: Stage) -> None:
    async def scene() -> None:
        session = await stage.submit(PROMPT)
        await stage.finish(session)
        session.cancel()
        unread = await stage.submit(PROMPT)
        stage.run_dry()
        unread.cancel()
        assert isinstance(unread.terminal, Completed)
        assert stage.metric("refloat_aborted_total") == 0
        assert stage.metric("refloat_generations_total", state="done") == 2
        stage.assert_clean()

    asyncio.run(scene())


def test_submit_cancelled_at_any_await_leaves_nothing(stage_of: type[Stage]) -> None:
    async def scene() -> None:
        for turns in range(40):
            stage = stage_of()
            stage.prep.yields = 2
            stage.publish(Availability.LOADING, facts=None)
            task = asyncio.ensure_future(stage.submit(PROMPT, echo=True))
            for turn in range(turns):
                if turn == 5:
                    stage.ready()
                await asyncio.sleep(0)
            if task.done():
                (await task).cancel()
                break
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            stage.assert_clean()
        else:
            raise AssertionError("never got as far as the session")
        stage.run_dry()
        stage.assert_clean()

    asyncio.run(scene())


def test_sibling_of_a_failed_choice_is_cancelled_and_one_failure_is_told(
    stage_of: type[Stage],
) -> None:
    stage = stage_of(capabilities=Capabilities(token_resume=False))
    replica = stage.ready()

    async def scene() -> None:
        session = await stage.submit(PROMPT, n=3)
        stage.step()
        stage.lose()
        answer = await stage.read(session)
        assert answer.problem.kind is ProblemKind.ENGINE_ERROR
        assert answer.problem.tokens_emitted == 3
        assert not [m for m in replica.sent if isinstance(m, Cancel)]
        assert stage.metric("refloat_generations_total", state="failed") == 1
        assert stage.metric("refloat_generations_total", state="cancelled") == 2
        stage.assert_clean()

    asyncio.run(scene())


def test_deadline_passed_while_running_and_while_queued_fails(stage_of: type[Stage]) -> None:
    stage = stage_of(max_num_seqs=1)
    replica = stage.ready()

    async def scene() -> None:
        running = await stage.submit(PROMPT, max_tokens=50, deadline_s=10.0)
        queued = await stage.submit((4,), deadline_s=11.0)
        stage.step(2)
        stage.clock.pass_s(11.0)
        stage.dispatch.sweep()
        for session, told in ((running, 2), (queued, None)):
            problem = (await stage.read(session)).problem
            assert problem.kind is ProblemKind.DEADLINE_EXCEEDED
            assert problem.tokens_emitted == told
        stage.run_dry()
        assert len(replica.adds) == 1
        assert len(replica.cancels) == 1
        stage.assert_clean()

    asyncio.run(scene())


def test_drain_lets_work_end_and_refuses_new(stage: Stage) -> None:
    async def scene() -> None:
        session = await stage.submit(PROMPT)
        drain = asyncio.ensure_future(stage.dispatch.drain(30))
        await asyncio.sleep(0)
        assert (await stage.refusal(PROMPT)).kind is ProblemKind.DRAINING
        assert not drain.done()
        assert (await stage.finish(session)).text() == text_of(PROMPT, 4)
        assert await drain
        stage.assert_clean()

    asyncio.run(scene())


def test_drain_deadline_ends_the_rest_with_an_error(stage_of: type[Stage]) -> None:
    stage = stage_of(max_num_seqs=1)
    stage.ready()

    async def scene() -> None:
        running = await stage.submit(PROMPT)
        queued = await stage.submit(PROMPT)
        stage.step()
        assert not await stage.dispatch.drain(0)
        assert (await stage.read(running)).problem.tokens_emitted == 1
        assert (await stage.read(queued)).problem.kind is ProblemKind.DRAINING
        stage.run_dry()
        stage.assert_clean()

    asyncio.run(scene())


def test_drain_of_an_idle_model_is_over_at_once(stage: Stage) -> None:
    async def scene() -> None:
        assert await stage.dispatch.drain(0)

    asyncio.run(scene())


def test_drain_refuses_who_waits_for_the_model(stage_of: type[Stage]) -> None:
    stage = stage_of()
    stage.publish(Availability.LOADING, facts=None)

    async def scene() -> None:
        waiting = asyncio.ensure_future(stage.refusal(PROMPT))
        await asyncio.sleep(0)
        assert stage.metric("refloat_waiting") == 1
        assert await stage.dispatch.drain(5)
        assert (await waiting).kind is ProblemKind.DRAINING
        stage.assert_clean()

    asyncio.run(scene())


def test_failure_of_the_sweep_comes_out_of_run(stage: Stage) -> None:
    async def scene() -> None:
        def broken() -> float:
            raise ZeroDivisionError

        stage.dispatch.clock = broken
        with pytest.raises(ZeroDivisionError):
            async with asyncio.timeout(5):
                await stage.dispatch.run()

    asyncio.run(scene())
