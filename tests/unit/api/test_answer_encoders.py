"""Chunks and whole answers come from the same events, and say the same."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from refloat.api.encode_chat import ChatEncoder
from refloat.api.encode_completions import CompletionEncoder
from refloat.api.fold import Fold
from refloat.api.schema.answers import ChatChunk, ChatCompletion, Completion
from refloat.api.translate import Order
from refloat.generation.events import ChoiceEnd, Delta, FinishReason, Usage
from refloat.generation.request import GenerationRequest, Sampling, TextPrompt
from refloat.parsing.pipeline import TokenLogprob

USAGE = Usage(prompt_tokens=3, completion_tokens=4, cached_tokens=2)


class Said:
    """As much of a session as encoders read."""

    model = 'a "model"'
    created = 1_700_000_000
    fingerprint = "fp_1"
    stream_id: str | None = None
    after = prompt_tokens = 0
    is_attached = is_overrun = False

    def __init__(self, request: GenerationRequest) -> None:
        self.request = request

    async def next_events(self) -> Any:
        raise NotImplementedError

    def hand_to(self, take: Any) -> None:
        raise NotImplementedError

    def cancel(self) -> None:
        raise NotImplementedError


def order(
    n: int = 1, *, logprobs: bool = False, usage: bool = False, top: int = 0, prompts: int = 1
) -> Order:
    request = GenerationRequest(
        request_id="r",
        tenant="t",
        model="m",
        prompts=tuple(TextPrompt("x") for _ in range(prompts)),
        sampling=Sampling(logprobs=logprobs),
        n=n,
    )
    return Order(request, stream=True, include_usage=usage, top_logprobs=top)


def events_in(data: bytes) -> list[Any]:
    """The JSON of each server-sent event, as a strict line reader of any kind sees it."""
    assert data == b"" or data.endswith(b"\n\n")
    lines = [line for line in data.decode().splitlines() if line]
    assert all(line.startswith("data: ") for line in lines)
    return [json.loads(line[6:]) for line in lines]


texts = st.text(st.characters(codec="utf-8"), max_size=20)


@given(st.lists(st.tuples(st.integers(0, 2), texts), max_size=12), st.booleans())
def test_chat_stream_joins_to_the_whole_answer(said: list[tuple[int, str]], usage: bool) -> None:
    made = order(3, usage=usage)
    encoder, fold = ChatEncoder(Said(made.request), made), Fold(3)
    data = encoder.opening()
    for index, text in said:
        fold.push(Delta(index, text))
        data += encoder.delta(Delta(index, text))
    for index in range(3):
        fold.push(ChoiceEnd(index, FinishReason.LENGTH))
        data += encoder.end(ChoiceEnd(index, FinishReason.LENGTH))
    chunks = events_in(data)
    whole = json.loads(encoder.whole(fold, USAGE))
    msgspec.convert(whole, ChatCompletion)
    for index in range(3):
        joined = "".join(
            choice["delta"].get("content", "")
            for chunk in chunks
            for choice in chunk["choices"]
            if choice["index"] == index
        )
        assert joined == whole["choices"][index]["message"]["content"]
    reasons = [c["choices"][0]["finish_reason"] for c in chunks]
    assert [r for r in reasons if r] == ["length"] * 3
    assert all(("usage" in chunk) is usage for chunk in chunks)
    for chunk in chunks:
        msgspec.convert(chunk, ChatChunk)
        assert chunk["id"] == whole["id"]


@given(st.lists(st.tuples(st.integers(0, 3), texts), max_size=12))
def test_completion_stream_joins_to_the_whole_answer(said: list[tuple[int, str]]) -> None:
    made = order(2, prompts=2)
    encoder, fold = CompletionEncoder(Said(made.request), made), Fold(4)
    data = encoder.opening()
    for index, text in said:
        fold.push(Delta(index, text))
        data += encoder.delta(Delta(index, text))
    for index in range(4):
        fold.push(ChoiceEnd(index, FinishReason.STOP))
        data += encoder.end(ChoiceEnd(index, FinishReason.STOP))
    chunks = events_in(data)
    whole = json.loads(encoder.whole(fold, USAGE))
    for chunk in [*chunks, whole]:
        msgspec.convert(chunk, Completion)
    for index in range(4):
        of_index = [c["choices"][0] for c in chunks if c["choices"][0]["index"] == index]
        assert "".join(c["text"] for c in of_index) == whole["choices"][index]["text"]
        assert [c["finish_reason"] for c in of_index if c["finish_reason"]] == ["stop"]


def test_first_chunk_of_a_choice_has_the_role() -> None:
    made = order(2)
    first = events_in(ChatEncoder(Said(made.request), made).opening())
    assert [c["choices"][0]["index"] for c in first] == [0, 1]
    assert all(c["choices"][0]["delta"] == {"role": "assistant", "content": ""} for c in first)


def test_usage_chunk_comes_only_if_asked_for() -> None:
    for encoder in (ChatEncoder, CompletionEncoder):
        silent, asked = order(), order(usage=True)
        assert encoder(Said(silent.request), silent).closing(USAGE) == b""
        [chunk] = events_in(encoder(Said(asked.request), asked).closing(USAGE))
        assert chunk["choices"] == []
        assert chunk["usage"] == {
            "prompt_tokens": 3,
            "completion_tokens": 4,
            "total_tokens": 7,
            "prompt_tokens_details": {"cached_tokens": 2},
            "completion_tokens_details": {"reasoning_tokens": 0},
        }


TOKENS = (
    TokenLogprob(1, "東".encode()[:2], -0.25),
    TokenLogprob(2, "東".encode()[2:], float("-inf")),
    TokenLogprob(3, b"a\xe2\x80\xa8", float("nan")),
)
TEXT = "東a\u2028"


@pytest.mark.parametrize("top", [0, 1])
@pytest.mark.parametrize("usage", [False, True])
def test_chat_logprobs_have_bytes_and_strict_numbers(top: int, usage: bool) -> None:
    made = order(logprobs=True, top=top, usage=usage)
    encoder, fold = ChatEncoder(Said(made.request), made), Fold(1)
    delta = Delta(0, TEXT, TOKENS)
    fold.push(delta)
    fold.push(ChoiceEnd(0, FinishReason.STOP))
    [chunk] = events_in(encoder.delta(delta))
    msgspec.convert(chunk, ChatChunk)
    whole = json.loads(encoder.whole(fold, USAGE))["choices"][0]
    content = chunk["choices"][0]["logprobs"]["content"]
    assert content == whole["logprobs"]["content"]
    assert b"".join(bytes(t["bytes"]) for t in content).decode() == TEXT
    assert [t["logprob"] for t in content] == [-0.25, -9999.0, -9999.0]
    assert content[0]["token"] == "\ufffd"
    assert [len(t["top_logprobs"]) for t in content] == [top] * 3
    assert chunk["choices"][0]["delta"]["content"] == TEXT


def test_completion_logprobs_are_the_same_streamed_and_whole() -> None:
    made = order(logprobs=True, top=1)
    whole_encoder = CompletionEncoder(Said(made.request), made)
    stream_encoder = CompletionEncoder(Said(made.request), made)
    fold = Fold(1)
    pieces = [Delta(0, "東", TOKENS[:2]), Delta(0, "a\u2028", TOKENS[2:])]
    streamed: dict[str, list[Any]] = {}
    for piece in pieces:
        fold.push(piece)
        [chunk] = events_in(stream_encoder.delta(piece))
        for key, values in chunk["choices"][0]["logprobs"].items():
            streamed.setdefault(key, []).extend(values)
    fold.push(ChoiceEnd(0, FinishReason.STOP))
    whole = json.loads(whole_encoder.whole(fold, USAGE))["choices"][0]["logprobs"]
    assert streamed == whole
    assert whole["text_offset"] == [0, 1, 1]
    assert whole["token_logprobs"] == [-0.25, -9999.0, -9999.0]
    assert whole["top_logprobs"][0] == {"\ufffd": -0.25}


def test_ids_differ_from_answer_to_answer() -> None:
    made = order()
    ids = {events_in(ChatEncoder(Said(made.request), made).opening())[0]["id"] for _ in range(100)}
    assert len(ids) == 100
    assert all(i.startswith("chatcmpl-") for i in ids)
