"""OpenAI's own SDK as the client."""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, Any

import pytest

from refloat.generation.events import Delta, Failed
from refloat.wire.problem import Problem, ProblemKind
from tests.late_import import late_import

if TYPE_CHECKING:
    import openai
else:
    openai = late_import("openai")

TEXT = "Hello Zürich 東京\u2028🚲!"
MESSAGES: Any = [{"role": "user", "content": "Hi"}]


@pytest.fixture
def sdk(gateway: Any) -> Generator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{gateway.url}/v1", api_key="none", max_retries=0) as client:
        yield client


def test_sdk_reads_a_whole_chat_answer(sdk: openai.OpenAI) -> None:
    answer = sdk.chat.completions.create(
        model="m", messages=MESSAGES, n=2, logprobs=True, top_logprobs=1
    )
    assert [choice.message.content for choice in answer.choices] == [TEXT, TEXT]
    assert [choice.finish_reason for choice in answer.choices] == ["stop", "stop"]
    assert answer.choices[0].message.tool_calls is None
    assert answer.system_fingerprint == "fp_test"
    assert answer.usage is not None
    assert answer.usage.prompt_tokens_details is not None
    assert answer.usage.prompt_tokens_details.cached_tokens == 3
    logprobs = answer.choices[1].logprobs
    assert logprobs is not None
    assert logprobs.content is not None
    joined = b"".join(bytes(token.bytes or []) for token in logprobs.content)
    assert joined.decode() == TEXT


def test_sdk_reads_a_chat_stream(sdk: openai.OpenAI) -> None:
    chunks = list(
        sdk.chat.completions.create(
            model="m", messages=MESSAGES, stream=True, stream_options={"include_usage": True}
        )
    )
    assert chunks[0].choices[0].delta.role == "assistant"
    text = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
    assert text == TEXT
    assert chunks[-1].choices == []
    assert chunks[-1].usage is not None
    assert chunks[-1].usage.total_tokens == 12
    assert len({c.id for c in chunks}) == 1


def test_sdk_reads_completions_in_both_modes(sdk: openai.OpenAI) -> None:
    whole = sdk.completions.create(model="m", prompt=["a", "b"], logprobs=1)
    assert [choice.text for choice in whole.choices] == [TEXT, TEXT]
    assert whole.choices[0].logprobs is not None
    stream = sdk.completions.create(model="m", prompt="a", stream=True)
    assert "".join(chunk.choices[0].text for chunk in stream) == TEXT


def test_sdk_reads_models(sdk: openai.OpenAI) -> None:
    assert "m" in [model.id for model in sdk.models.list()]
    assert sdk.models.retrieve("m").owned_by
    with pytest.raises(openai.NotFoundError) as caught:
        sdk.models.retrieve("nope")
    assert caught.value.code == "model_not_found"


@pytest.mark.parametrize("stream", [False, True])
def test_sdk_raises_its_own_errors(sdk: openai.OpenAI, gateway: Any, stream: bool) -> None:
    with pytest.raises(openai.BadRequestError) as bad:
        sdk.chat.completions.create(model="m", messages=MESSAGES, n=0, stream=stream)
    assert bad.value.param == "n"
    gateway.generations.problem = Problem(ProblemKind.QUEUE_FULL, "full")
    with pytest.raises(openai.RateLimitError):
        sdk.chat.completions.create(model="m", messages=MESSAGES, stream=stream)


def test_sdk_raises_in_a_stream_that_fails(sdk: openai.OpenAI, gateway: Any) -> None:
    gateway.generations.says([Delta(0, "a")])
    received: list[Any] = []
    stream = sdk.chat.completions.create(model="m", messages=MESSAGES, stream=True)
    iterator = iter(stream)
    received.append(next(iterator))
    gateway.generations.last.put([Failed(Problem(ProblemKind.ENGINE_ERROR, "The engine failed."))])
    with pytest.raises(openai.APIError, match="The engine failed"):
        received.extend(iterator)
    assert all(chunk.choices[0].finish_reason is None for chunk in received)
