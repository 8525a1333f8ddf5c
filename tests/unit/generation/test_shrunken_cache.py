"""The next worker's cache is smaller than the last one's was."""

import asyncio

from refloat.generation.events import FinishReason
from refloat.wire.messages import CacheFacts
from refloat.wire.problem import ProblemKind
from tests.unit.generation.conftest import Stage, text_of

PROMPT = (1, 2, 3)


def test_open_ended_answer_in_a_shrunken_cache_ends_as_length_where_that_is_full() -> None:
    async def scene() -> None:
        stage = Stage(blocks=10)
        stage.ready()
        queued = await stage.submit(PROMPT, max_tokens=None)
        running = await stage.submit(PROMPT, max_tokens=None)
        stage.step(5)
        stage.lose()
        stage.ready(cache=CacheFacts(4, 5))
        for session in (queued, running):
            answer = await stage.finish(session)
            assert answer.reasons() == {0: FinishReason.LENGTH}
            assert answer.text() == text_of(PROMPT, 17)
        stage.assert_clean()

    asyncio.run(scene())


def test_open_ended_answer_that_has_more_than_the_cache_now_ends_as_length_at_once() -> None:
    async def scene() -> None:
        stage = Stage(blocks=10)
        stage.ready()
        session = await stage.submit(PROMPT, max_tokens=None)
        stage.step(12)
        stage.lose()
        replica = stage.ready(cache=CacheFacts(4, 3))
        answer = await stage.finish(session)
        assert answer.reasons() == {0: FinishReason.LENGTH}
        assert answer.text() == text_of(PROMPT, 12)
        assert answer.completed.usage.completion_tokens == 12
        assert not replica.adds
        stage.assert_clean()

    asyncio.run(scene())


def test_answer_with_a_limit_that_the_cache_cannot_hold_any_more_fails() -> None:
    async def scene() -> None:
        stage = Stage(blocks=10)
        stage.ready()
        session = await stage.submit(PROMPT, max_tokens=30)
        stage.step(2)
        stage.lose()
        stage.ready(cache=CacheFacts(4, 5))
        answer = await stage.finish(session)
        assert answer.problem.kind is not ProblemKind.INTERNAL_ERROR
        stage.assert_clean()

    asyncio.run(scene())
