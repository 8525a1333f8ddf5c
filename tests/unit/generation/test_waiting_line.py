"""The bounds of the line: full is told, room that workers have is not counted against it."""

import asyncio

import pytest

from refloat.generation.limits import Limits
from refloat.wire.problem import ProblemKind
from tests.unit.generation.conftest import Stage, text_of

PROMPT = (1, 2, 3)


@pytest.mark.parametrize("max_queue", [0, 2])
def test_line_full_refuses_one_more(stage_of: type[Stage], max_queue: int) -> None:
    stage = stage_of(limits=Limits(max_queue=max_queue), max_num_seqs=1)
    stage.ready()

    async def scene() -> None:
        sessions = [await stage.submit(PROMPT) for _ in range(1 + max_queue)]
        problem = await stage.refusal(PROMPT)
        assert problem.kind is ProblemKind.QUEUE_FULL
        assert problem.retry_after_s is not None
        for session in sessions:
            assert (await stage.finish(session)).text() == text_of(PROMPT, 4)
        await stage.finish(await stage.submit(PROMPT))
        stage.assert_clean()

    asyncio.run(scene())


def test_line_does_not_count_who_only_waits_for_the_next_step(stage_of: type[Stage]) -> None:
    limits = Limits(max_queue=0, look_ahead=2, step_tokens=1)
    stage = stage_of(limits=limits, max_num_seqs=6)
    replica = stage.ready()

    async def scene() -> None:
        sessions = [await stage.submit(PROMPT) for _ in range(6)]
        assert len(replica.adds) == 2, "a worker is sent no more than it can begin"
        assert (await stage.refusal(PROMPT)).kind is ProblemKind.QUEUE_FULL
        stage.step()
        assert len(replica.adds) == 4
        for session in sessions:
            assert (await stage.finish(session)).text() == text_of(PROMPT, 4)

    asyncio.run(scene())


def test_line_takes_a_request_larger_than_itself_if_it_can_begin(stage_of: type[Stage]) -> None:
    stage = stage_of(limits=Limits(max_queue=2), max_num_seqs=1)
    stage.ready()

    async def scene() -> None:
        large = await stage.submit(PROMPT, n=6)
        assert (await stage.refusal(PROMPT)).kind is ProblemKind.QUEUE_FULL
        assert len((await stage.finish(large)).reasons()) == 6

    asyncio.run(scene())


@pytest.mark.parametrize(
    "limits",
    [Limits(max_queued_tokens=20), Limits(max_queued_bytes=300)],
    ids=["tokens", "bytes"],
)
def test_line_is_bounded_in_tokens_and_bytes(stage_of: type[Stage], limits: Limits) -> None:
    stage = stage_of(limits=limits, max_num_seqs=1)
    stage.ready()

    async def scene() -> None:
        running = await stage.submit(PROMPT)
        waiting = [await stage.submit(PROMPT), await stage.submit(PROMPT)]
        assert (await stage.refusal(PROMPT)).kind is ProblemKind.QUEUE_FULL
        waiting.pop().cancel()
        waiting.append(await stage.submit(PROMPT))
        for session in (running, *waiting):
            await stage.finish(session)
        stage.assert_clean()

    asyncio.run(scene())
