import asyncio

import msgspec
import pytest

from refloat.generation.request import TextPrompt
from refloat.generation.service import Generations
from refloat.generation.session import Session
from refloat.supervisor.fleet import Availability
from refloat.wire.problem import ProblemError, ProblemKind
from tests.unit.generation.conftest import Stage, text_of


def test_submit_finds_the_model_by_its_name(stage: Stage) -> None:
    service = Generations({"m": stage.intake})

    async def scene() -> None:
        session = await service.submit(stage.request((1, 2)))
        assert isinstance(session, Session)
        assert not service.idle
        assert (await stage.finish(session)).text() == text_of((1, 2), 4)
        assert service.idle

    asyncio.run(scene())


def test_model_unknown_names_the_known_ones(stage: Stage) -> None:
    service = Generations({"m": stage.intake, "other": stage.intake})

    async def scene() -> None:
        request = msgspec.structs.replace(stage.request(), model="nope")
        for call in (
            service.submit(request),
            service.tokenize("nope", TextPrompt("a"), "t"),
            service.detokenize("nope", [1], "t"),
        ):
            with pytest.raises(ProblemError) as caught:
                await call
            problem = caught.value.problem
            assert problem.kind is ProblemKind.MODEL_NOT_FOUND
            assert problem.param == "model"
            assert "'nope'" in problem.message
            assert "'m', 'other'" in problem.message

    asyncio.run(scene())


def test_tokens_and_text_work_while_the_worker_is_gone(stage: Stage) -> None:
    service = Generations({"m": stage.intake})

    async def scene() -> None:
        stage.lose()
        assert await service.tokenize("m", TextPrompt("abc"), "t") == [0, 1, 2]
        assert await service.detokenize("m", [2, 1], "u") == "cb"
        assert stage.prep.tenants == ["t", "u"]

    asyncio.run(scene())


def test_more_tokens_than_are_listed_are_counted(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("refloat.generation.service.MOST_TOLD_TOKENS", 2)
    service = Generations({"m": stage.intake})

    async def scene() -> None:
        with pytest.raises(ProblemError, match="3 tokens; at most 2") as caught:
            await service.tokenize("m", TextPrompt("abc"), "t")
        assert caught.value.problem.kind is ProblemKind.REQUEST_TOO_LARGE

    asyncio.run(scene())


def test_drain_waits_for_every_model(stage_of: type[Stage]) -> None:
    one, two = stage_of(), stage_of()
    one.ready()
    two.ready()
    service = Generations({"one": one.intake, "two": two.intake})

    async def scene() -> None:
        session = await two.submit((1, 2))
        drain = asyncio.ensure_future(service.drain(30))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert not drain.done()
        await two.finish(session)
        assert await drain
        assert (await one.refusal((1,))).kind is ProblemKind.DRAINING

    asyncio.run(scene())


def test_model_that_never_came_to_be_is_told_with_its_reason(stage: Stage) -> None:
    service = Generations({}, stage.fleet)

    async def scene() -> None:
        stage.publish(Availability.FAILED, reason="no tokenizer in the folder")
        with pytest.raises(ProblemError, match="no tokenizer in the folder") as caught:
            await service.submit(stage.request())
        assert caught.value.problem.kind is ProblemKind.MODEL_FAILED

    asyncio.run(scene())
