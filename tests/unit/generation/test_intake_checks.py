"""What is refused before anything runs, how parameters are resolved, and the wait for a model."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from refloat.generation.limits import Limits
from refloat.generation.request import ChatPrompt, TextPrompt
from refloat.models.manifest import SamplingDefaults
from refloat.supervisor.fleet import Availability
from refloat.wire.messages import Capabilities
from refloat.wire.problem import ProblemError, ProblemKind
from tests.unit.generation.conftest import EOS, VOCAB_SIZE, Stage, text_of

CHAT = ChatPrompt([{"role": "user", "content": "hi"}])


@pytest.mark.parametrize(
    ("prompts", "more", "kind", "param"),
    [
        ([(1, VOCAB_SIZE)], {}, ProblemKind.INVALID_REQUEST, "prompt[1]"),
        ([(1,), (2, -1)], {}, ProblemKind.INVALID_REQUEST, "prompt[1][1]"),
        ([()], {}, ProblemKind.INVALID_REQUEST, "prompt"),
        ([(1,), ()], {}, ProblemKind.INVALID_REQUEST, "prompt[1]"),
        ([TextPrompt("")], {}, ProblemKind.INVALID_REQUEST, "prompt"),
        ([(1,)], {"min_tokens": 5}, ProblemKind.INVALID_REQUEST, "min_tokens"),
        ([(1,)], {"n": 3, "best_of": 2}, ProblemKind.INVALID_REQUEST, "best_of"),
        ([(1,)], {"stop_token_ids": (1, 99)}, ProblemKind.INVALID_REQUEST, "stop_token_ids[1]"),
    ],
)
def test_request_that_cannot_be_right_names_the_field(
    stage: Stage, prompts: list[Any], more: dict[str, Any], kind: ProblemKind, param: str
) -> None:
    async def scene() -> None:
        problem = await stage.refusal(*prompts, **more)
        assert (problem.kind, problem.param) == (kind, param)
        assert stage.replica is not None
        assert stage.replica.sent == []
        stage.assert_clean()

    asyncio.run(scene())


@pytest.mark.parametrize("n", [1, 5])
@pytest.mark.parametrize(
    ("length", "max_tokens", "fits"),
    [(10, 10, True), (10, 11, False), (19, None, True), (20, None, False), (25, 1, False)],
)
def test_context_is_judged_on_prompt_and_explicit_max_tokens(
    stage_of: type[Stage], n: int, length: int, max_tokens: int | None, fits: bool
) -> None:
    stage = stage_of(context_length=20, blocks=5, block_size=4)
    stage.ready()

    async def scene() -> None:
        if fits:
            session = await stage.submit([1] * length, max_tokens=max_tokens, n=n)
            answer = await stage.finish(session)
            assert len(answer.text()) == (max_tokens or 20 - length)
            return
        problem = await stage.refusal([1] * length, max_tokens=max_tokens, n=n)
        assert problem.kind is ProblemKind.CONTEXT_LENGTH_EXCEEDED
        assert problem.param == "prompt"
        assert "maximum context length is 20 tokens" in problem.message
        assert str(length) in problem.message

    asyncio.run(scene())


@pytest.mark.parametrize("max_tokens", [None, 1, 7, 19, 20])
def test_every_prompt_longer_than_one_that_never_fits_never_fits(
    stage_of: type[Stage], max_tokens: int | None
) -> None:
    stage = stage_of(context_length=20, blocks=5, block_size=4, limits=Limits(max_queue=30))
    stage.ready()

    async def verdict(length: int) -> ProblemKind | None:
        try:
            session = await stage.submit([1] * length, max_tokens=max_tokens)
        except ProblemError as error:
            return error.problem.kind
        await stage.finish(session)
        return None

    async def scene() -> None:
        for length in range(1, 30):
            fits = length + (max_tokens or 1) <= 20
            expected = None if fits else ProblemKind.CONTEXT_LENGTH_EXCEEDED
            assert await verdict(length) is expected, length
        stage.assert_clean()

    asyncio.run(scene())


def test_context_message_counts_as_openai_does(stage_of: type[Stage]) -> None:
    stage = stage_of(context_length=20)
    stage.ready()

    async def scene() -> None:
        problem = await stage.refusal([1] * 15, max_tokens=9, prompt_param="messages")
        assert problem.message == (
            "This model's maximum context length is 20 tokens. However, you requested 24 tokens "
            "(15 in the messages, 9 in the completion). "
            "Please reduce the length of the messages or completion."
        )

    asyncio.run(scene())


@pytest.mark.parametrize(
    ("explicit", "default", "cap", "length", "expected"),
    [
        (7, 16, 5, 10, 7),
        (None, 16, 5, 10, 16),
        (None, 16, None, 190, 10),
        (None, None, 5, 10, 5),
        (None, None, None, 10, 190),
        (None, None, 50, 190, 10),
    ],
)
def test_max_tokens_absent_is_the_default_or_what_is_left(
    stage_of: type[Stage],
    explicit: int | None,
    default: int | None,
    cap: int | None,
    length: int,
    expected: int,
) -> None:
    stage = stage_of(max_output_tokens=cap)
    stage.ready()

    async def scene() -> None:
        session = await stage.submit([1] * length, max_tokens=explicit, default_max_tokens=default)
        assert session.choices[0].journal.params.max_tokens == expected

    asyncio.run(scene())


def test_sampling_is_the_requests_then_the_models_then_openais(stage_of: type[Stage]) -> None:
    stage = stage_of(sampling=SamplingDefaults(temperature=0.6, top_k=20))
    stage.ready()

    async def scene() -> None:
        params = (await stage.submit((1,))).choices[0].journal.params
        assert (params.temperature, params.top_p, params.top_k) == (0.6, 1.0, 20)
        assert (params.min_p, params.repetition_penalty) == (0.0, 1.0)
        said = await stage.submit((1,), temperature=0.0, top_k=0, stop_token_ids=(3, EOS))
        params = said.choices[0].journal.params
        assert (params.temperature, params.top_k) == (0.0, 0)
        assert params.stop_token_ids == (EOS, 3)
        ignoring = await stage.submit((1,), ignore_eos=True, stop_token_ids=(3,))
        assert ignoring.choices[0].journal.params.stop_token_ids == (3,)

    asyncio.run(scene())


@pytest.mark.parametrize(
    ("more", "param"), [({"logprobs": True}, "logprobs"), ({"best_of": 2}, "best_of")]
)
def test_engine_without_logprobs_refuses_what_needs_them(
    stage_of: type[Stage], more: dict[str, Any], param: str
) -> None:
    stage = stage_of(capabilities=Capabilities(logprobs=False))
    stage.ready()

    async def scene() -> None:
        problem = await stage.refusal((1,), **more)
        assert (problem.kind, problem.param) == (ProblemKind.UNSUPPORTED_VALUE, param)

    asyncio.run(scene())


def test_model_without_template_refuses_chat_and_serves_text(stage_of: type[Stage]) -> None:
    stage = stage_of(chat_unavailable="line 3: unexpected end")
    stage.ready()

    async def scene() -> None:
        problem = await stage.refusal(CHAT)
        assert problem.kind is ProblemKind.CHAT_TEMPLATE_UNAVAILABLE
        assert "line 3" in problem.message
        answer = await stage.finish(await stage.submit(TextPrompt("hi")))
        assert answer.text() == text_of((7, 8), 4)

    asyncio.run(scene())


@pytest.mark.parametrize(
    ("availability", "kind"),
    [
        (Availability.FAILED, ProblemKind.MODEL_FAILED),
        (Availability.DRAINING, ProblemKind.DRAINING),
        (Availability.UNLOADED, ProblemKind.MODEL_NOT_FOUND),
    ],
)
def test_model_for_which_waiting_is_no_use_refuses_at_once(
    stage: Stage, availability: Availability, kind: ProblemKind
) -> None:
    async def scene() -> None:
        stage.publish(availability, reason="because", retry_after_s=500.0)
        problem = await stage.refusal((1,))
        assert problem.kind is kind
        if kind is ProblemKind.MODEL_FAILED:
            assert "because" in problem.message
            assert problem.retry_after_s == 500.0

    asyncio.run(scene())


@pytest.mark.parametrize(
    ("availability", "kind"),
    [
        (Availability.LOADING, ProblemKind.MODEL_LOADING),
        (Availability.RECOVERING, ProblemKind.MODEL_RECOVERING),
    ],
)
@pytest.mark.parametrize("known", [True, False])
def test_model_not_ready_in_time_is_a_503(
    stage_of: type[Stage], availability: Availability, kind: ProblemKind, known: bool
) -> None:
    stage = stage_of(limits=Limits(hold_timeout_s=0.01))
    stage.publish(availability, facts=stage.facts if known else None, retry_after_s=3.0)

    async def scene() -> None:
        problem = await stage.refusal((1,))
        assert (problem.kind, problem.retry_after_s) == (kind, 3.0)
        stage.assert_clean()

    asyncio.run(scene())


def test_wait_for_the_model_is_never_longer_than_the_deadline(stage_of: type[Stage]) -> None:
    stage = stage_of(limits=Limits(hold_timeout_s=1000))
    stage.publish(Availability.RECOVERING)

    async def scene() -> None:
        async with asyncio.timeout(5):
            problem = await stage.refusal((1,), deadline_s=0.01)
        assert problem.kind is ProblemKind.MODEL_RECOVERING

    asyncio.run(scene())


@pytest.mark.parametrize("known", [True, False])
def test_request_during_a_load_is_served_when_it_is_over(
    stage_of: type[Stage], known: bool
) -> None:
    stage = stage_of()
    stage.publish(Availability.LOADING, facts=stage.facts if known else None)

    async def scene() -> None:
        waiting = [asyncio.ensure_future(stage.submit((n, n))) for n in range(3)]
        await asyncio.sleep(0)
        replica = stage.ready()
        sessions = [await task for task in waiting]
        assert [add.generation for add in replica.adds] == [
            session.choices[0].journal.generation for session in sessions
        ]
        for n, session in enumerate(sessions):
            assert (await stage.finish(session)).text() == text_of((n, n), 4)
        stage.assert_clean()

    asyncio.run(scene())


def test_wrong_request_is_told_so_even_while_the_model_recovers(stage: Stage) -> None:
    async def scene() -> None:
        stage.lose()
        async with asyncio.timeout(5):
            assert (await stage.refusal((99,))).kind is ProblemKind.INVALID_REQUEST

    asyncio.run(scene())


def test_context_is_checked_again_after_the_wait(stage: Stage) -> None:
    async def scene() -> None:
        stage.lose()
        task = asyncio.ensure_future(stage.refusal([1] * 50))
        await asyncio.sleep(0)
        stage.facts = replace(stage.facts, context_length=20)
        stage.ready()
        assert (await task).kind is ProblemKind.CONTEXT_LENGTH_EXCEEDED

    asyncio.run(scene())


def test_too_many_waiting_for_the_model_are_refused(stage_of: type[Stage]) -> None:
    stage = stage_of(limits=Limits(max_queue=2))
    stage.publish(Availability.LOADING, facts=None)

    async def scene() -> None:
        tasks = [asyncio.ensure_future(stage.submit((1,))) for _ in range(2)]
        await asyncio.sleep(0)
        assert (await stage.refusal((1,))).kind is ProblemKind.QUEUE_FULL
        stage.ready()
        for task in tasks:
            await stage.finish(await task)
        stage.assert_clean()

    asyncio.run(scene())


def test_deadline_passed_during_the_wait_is_told(stage: Stage) -> None:
    async def scene() -> None:
        stage.prep.yields = 1
        task = asyncio.ensure_future(stage.refusal(TextPrompt("ab"), deadline_s=5.0))
        await asyncio.sleep(0)
        stage.clock.pass_s(6)
        assert (await task).kind is ProblemKind.DEADLINE_EXCEEDED
        stage.assert_clean()

    asyncio.run(scene())


def test_budget_exhausted_refuses_and_holds_nothing(stage_of: type[Stage]) -> None:
    stage = stage_of(budget_bytes=6000)
    stage.ready()

    async def scene() -> None:
        first = await stage.submit((1,))
        problem = await stage.refusal((1,))
        assert problem.kind is ProblemKind.OVERLOADED
        assert problem.retry_after_s is not None
        await stage.finish(first)
        await stage.finish(await stage.submit((1,)))
        stage.assert_clean()

    asyncio.run(scene())


@pytest.mark.parametrize("prompt", [TextPrompt("a" * 21), ChatPrompt([{"content": "a" * 21}])])
def test_prompt_longer_than_the_context_is_counted_and_not_fetched(
    stage_of: type[Stage], prompt: TextPrompt | ChatPrompt
) -> None:
    stage = stage_of(context_length=20, blocks=5, block_size=4)
    stage.ready()

    async def scene() -> None:
        problem = await stage.refusal(prompt)
        assert problem.kind is ProblemKind.CONTEXT_LENGTH_EXCEEDED
        assert "20 tokens" in problem.message
        assert "(21 in the prompt" in problem.message

    asyncio.run(scene())


def test_deadline_holds_while_the_prompt_is_prepared(stage: Stage) -> None:
    async def stuck(*_: Any, **__: Any) -> list[list[int]]:
        return await asyncio.get_running_loop().create_future()

    stage.prep.tokenize = stuck

    async def scene() -> None:
        problem = await stage.refusal(TextPrompt("abc"), deadline_s=0.01)
        assert problem.kind is ProblemKind.DEADLINE_EXCEEDED
        stage.assert_clean()

    asyncio.run(scene())
