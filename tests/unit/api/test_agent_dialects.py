"""What `/messages` and `/responses` make of conversations, and that their streams join to their
whole answers, however the text is cut."""

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from refloat.api.caller import Caller
from refloat.api.encode_anthropic import MessagesEncoder
from refloat.api.encoder import AnswerEncoder
from refloat.api.fold import Fold
from refloat.api.responses import store as store_module
from refloat.api.responses.database import StoredResponse
from refloat.api.responses.desk import ResponseDesk
from refloat.api.responses.encode import ResponsesEncoder
from refloat.api.responses.store import ResponseStore
from refloat.api.responses.translate import translate_responses
from refloat.api.sse import encoded
from refloat.api.translate import Order
from refloat.api.translate_anthropic import translate_messages
from refloat.generation.events import (
    ChoiceEnd,
    Completed,
    Delta,
    Event,
    FinishReason,
    Parsed,
    Usage,
)
from refloat.generation.request import ChatPrompt, GenerationRequest
from refloat.parsing.parts import CallArguments, CallBegin, CallEnd, Reasoning
from refloat.wire.problem import ProblemError, ProblemKind

CALLER = Caller("r", "t")
USAGE = Usage(prompt_tokens=3, completion_tokens=4, cached_tokens=2)


class Said:
    """As much of a session as encoders read."""

    model, created, fingerprint = "m", 1_700_000_000, "fp_1"
    stream_id: str | None = "5" * 32
    after, prompt_tokens = 0, 3
    is_attached = is_overrun = False

    def __init__(self, request: GenerationRequest) -> None:
        self.request = request

    async def next_events(self) -> Any:
        raise NotImplementedError

    def hand_to(self, take: Any) -> None:
        raise NotImplementedError

    def cancel(self) -> None:
        raise NotImplementedError


def messages_order(**fields: Any) -> Order:
    body = {"model": "m", "max_tokens": 5, "messages": [{"role": "user", "content": "x"}], **fields}
    return translate_messages(json.dumps(body).encode(), CALLER)


def responses_order(**fields: Any) -> Order:
    body = {"model": "m", "input": "x", **fields}
    data = json.dumps(body).encode()
    return asyncio.run(translate_responses(ResponseDesk(None), data, CALLER, lambda _: None))


def prompt_of(order: Order) -> list[dict[str, Any]]:
    [prompt] = order.request.prompts
    assert isinstance(prompt, ChatPrompt)
    return prompt.messages


# --- conversations --------------------------------------------------------------------------------

PLAIN_TALK = [
    {"role": "system", "content": "S"},
    {"role": "user", "content": "a\nb"},
    {
        "role": "assistant",
        "content": "c\nd",
        "reasoning_content": "t",
        "tool_calls": [
            {"id": "1", "type": "function", "function": {"name": "f", "arguments": '{"x":1}'}}
        ],
    },
    {"role": "tool", "content": "r\ns", "tool_call_id": "1"},
    {"role": "user", "content": "e"},
]


def test_messages_become_a_templates_conversation() -> None:
    def text(*texts: str) -> list[dict[str, Any]]:
        return [{"type": "text", "text": one, "cache_control": {}} for one in texts]

    assistant = [
        {"type": "redacted_thinking", "data": "?"},
        {"type": "thinking", "thinking": "t", "signature": "s"},
        *text("c"),
        {"type": "tool_use", "id": "1", "name": "f", "input": {"x": 1}},
        *text("d"),
    ]
    result = {"type": "tool_result", "tool_use_id": "1", "content": text("r", "s")}
    order = messages_order(
        system=text("S"),
        messages=[
            {"role": "user", "content": text("a", "b")},
            {"role": "assistant", "content": assistant},
            {"role": "user", "content": [result, *text("e")]},
        ],
    )
    assert prompt_of(order) == PLAIN_TALK


def test_more_results_than_messages_may_be_are_refused_by_their_place() -> None:
    ids = [str(number) for number in range(10_000)]
    calls = [f'{{"type": "tool_use", "id": "{one}", "name": "f", "input": {{}}}}' for one in ids]
    results = [f'{{"type": "tool_result", "tool_use_id": "{one}"}}' for one in ids]

    def order(count: int) -> Order:
        asked = f'{{"role": "assistant", "content": [{",".join(calls)}]}}'
        told = f'{{"role": "user", "content": [{",".join(results[:count])}]}}'
        body = f'{{"model": "m", "max_tokens": 5, "messages": [{asked}, {told}]}}'
        return translate_messages(body.encode(), CALLER)

    assert len(prompt_of(order(9_999))) == 10_000
    with pytest.raises(ProblemError) as refusal:
        order(10_000)
    assert refusal.value.problem.param == "messages[1].content"


def test_output_format_of_older_sdks_is_the_answers_form() -> None:
    form = {"type": "json_schema", "schema": {"type": "object"}}
    said = {"messages": [{"role": "user", "content": "x"}]}
    old = messages_order(**said, output_format=form).request.guide
    new = messages_order(**said, output_config={"format": form}).request.guide
    assert old is not None
    assert new is not None
    assert (old.kind, old.text, old.param) == (new.kind, new.text, "output_format.schema")
    with pytest.raises(ProblemError):
        messages_order(**said, output_format=form, output_config={"format": form})


def test_items_become_a_templates_conversation() -> None:
    def parts(kind: str, *texts: str) -> list[dict[str, Any]]:
        return [{"type": kind, "text": one} for one in texts]

    order = responses_order(
        instructions="S",
        input=[
            {"role": "user", "content": parts("input_text", "a", "b")},
            {"type": "reasoning", "summary": [], "content": parts("reasoning_text", "t")},
            {"type": "message", "role": "assistant", "content": parts("output_text", "c")},
            {"type": "function_call", "call_id": "1", "name": "f", "arguments": '{"x":1}'},
            {"role": "assistant", "content": "d"},
            {
                "type": "function_call_output",
                "call_id": "1",
                "output": parts("input_text", "r", "s"),
            },
            {"role": "user", "content": "e"},
        ],
    )
    assert prompt_of(order) == PLAIN_TALK


# --- streams and whole answers --------------------------------------------------------------------

texts = st.text(st.characters(codec="utf-8"), min_size=1, max_size=10)
stretches = st.lists(st.tuples(st.sampled_from(["text", "thought", "call"]), texts), max_size=6)


def events_of(said: Sequence[tuple[str, str]], size: int, reason: FinishReason) -> list[Event]:
    """The stretches as events, their texts cut into pieces."""
    events: list[Event] = []
    calls = 0
    for kind, text in said:
        pieces = [text[at : at + size] for at in range(0, len(text), size)]
        if kind == "text":
            events += [Delta(0, piece) for piece in pieces]
        elif kind == "thought":
            events += [Parsed(0, Reasoning(piece)) for piece in pieces]
        else:
            arguments = json.dumps({"a": text})
            cut = [arguments[at : at + size] for at in range(0, len(arguments), size)]
            events.append(Parsed(0, CallBegin(calls, f"call_{calls}", "f")))
            events += [Parsed(0, CallArguments(calls, piece)) for piece in cut]
            events.append(Parsed(0, CallEnd(calls)))
            calls += 1
    return [*events, ChoiceEnd(0, reason), Completed(USAGE)]


def streamed_and_whole(
    encoder: AnswerEncoder, other: AnswerEncoder, events: list[Event]
) -> tuple[list[Any], Any]:
    fold = Fold(1)
    for event in events:
        fold.push(event)
    data = encoder.opening() + b"".join(encoded(encoder, event) for event in events)
    lines = [line for line in data.decode().splitlines() if line.startswith("data: ")]
    told = [json.loads(line.removeprefix("data: ")) for line in lines]
    names = [
        line.removeprefix("event: ") for line in data.decode().splitlines() if "event: " in line
    ]
    assert [event["type"] for event in told] == names[: len(told)]
    return told, json.loads(other.whole(fold, USAGE))


@given(stretches, st.integers(1, 5), st.sampled_from(FinishReason))
def test_message_stream_joins_to_the_whole_message(
    said: list[tuple[str, str]], size: int, reason: FinishReason
) -> None:
    order = messages_order()
    one, other = (MessagesEncoder(Said(order.request), order) for _ in range(2))
    told, whole = streamed_and_whole(one, other, events_of(said, size, reason))
    blocks: list[dict[str, Any]] = []
    for event in told:
        if event["type"] == "content_block_start":
            assert event["index"] == len(blocks)
            blocks.append({**event["content_block"], "json": ""})
        elif event["type"] == "content_block_delta":
            delta = event["delta"]
            field = {"text_delta": "text", "thinking_delta": "thinking"}.get(delta["type"], "json")
            assert event["index"] == len(blocks) - 1
            blocks[-1][field] += delta.get(field, delta.get("partial_json"))
    edges = [
        event for event in told if event["type"] in ("content_block_start", "content_block_stop")
    ]
    kinds = ["content_block_start", "content_block_stop"] * len(blocks)
    numbers = [number for number in range(len(blocks)) for _ in range(2)]
    assert [(event["type"], event["index"]) for event in edges] == [
        *zip(kinds, numbers, strict=True)
    ]
    for block in blocks:
        arguments = block.pop("json")
        if block["type"] == "tool_use":
            block["input"] = json.loads(arguments)
    assert blocks == whole["content"]
    assert told[-2]["delta"]["stop_reason"] == whole["stop_reason"]
    assert told[-2]["usage"] == whole["usage"]


@given(stretches, st.integers(1, 5), st.sampled_from(FinishReason))
def test_response_stream_joins_to_the_whole_response(
    said: list[tuple[str, str]], size: int, reason: FinishReason
) -> None:
    order, desk = responses_order(), ResponseDesk(None)
    one, other = (ResponsesEncoder(desk, Said(order.request), order) for _ in range(2))
    told, whole = streamed_and_whole(one, other, events_of(said, size, reason))
    assert [event["sequence_number"] for event in told] == list(range(len(told)))
    done = [event["item"] for event in told if event["type"] == "response.output_item.done"]
    texts = ["" for _ in done]
    for event in told:
        if event["type"].endswith(".delta"):
            texts[event["output_index"]] += event["delta"]
    for item, text in zip(done, texts, strict=True):
        assert text == (item["arguments"] if "arguments" in item else item["content"][0]["text"])
    # of a call that was whole before the limit the stream has said so already
    ends = [{**item, "status": ""} for item in whole["output"]]
    assert [{**item, "status": ""} for item in done] == ends
    last = told[-1]["response"]
    assert {**last, "completed_at": 0} == {**whole, "completed_at": 0}
    msgspec.json.encode(last)


# --- the store ------------------------------------------------------------------------------------

KEPT = StoredResponse("x", "t", None, 4_000_000_000, b"[]", b'{"output": []}')


def store_in(folder: Path) -> ResponseStore:
    return ResponseStore(folder / "r.sqlite3", max_bytes=1000, retention_s=3600)


def test_what_is_put_is_found_at_once_and_by_the_next_server(tmp_path: Path) -> None:
    async def scenario() -> None:
        store = store_in(tmp_path)
        store.put(KEPT)
        assert await store.get("t", "x") == KEPT
        assert await store.get("other", "x") is None
        assert await store.chain("t", "x") == [KEPT]
        assert await store_in(tmp_path).get("t", "x") == KEPT
        assert await store.delete("t", "x")
        assert await store.get("t", "x") is None

    asyncio.run(scenario())


def test_what_waits_for_the_disk_is_bounded_in_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_module, "_MAX_UNWRITTEN_BYTES", 1)

    async def scenario() -> None:
        store = store_in(tmp_path)
        store.put(KEPT)
        store.put(KEPT._replace(id="y"))
        assert await store.chain("t", "x") == [KEPT]
        assert await store.get("t", "y") is None
        store.put(KEPT._replace(id="z"))
        assert await store.get("t", "z")

    asyncio.run(scenario())


def test_conversation_that_is_taken_up_again_is_paid_for_before_it_is_decoded(
    tmp_path: Path,
) -> None:
    held: list[int] = []

    def hold(size_bytes: int) -> None:
        held.append(size_bytes)
        raise ProblemError.of(ProblemKind.OVERLOADED, "no room")

    async def scenario() -> None:
        store = store_in(tmp_path)
        store.put(KEPT._replace(items=b"[{},{},{}] and so on", previous=None))
        data = b'{"model": "m", "input": "x", "previous_response_id": "x"}'
        await translate_responses(ResponseDesk(store), data, CALLER, hold)

    with pytest.raises(ProblemError, match="no room"):
        asyncio.run(scenario())
    assert len(held) == 1
    assert held[0] > 3 * 200  # each empty object takes more than its text


def test_disk_that_fails_is_told_and_nothing_hangs(tmp_path: Path) -> None:
    (tmp_path / "r.sqlite3").write_bytes(b"no database at all" * 100)

    async def scenario() -> None:
        store = store_in(tmp_path)
        store.put(KEPT)
        with pytest.raises(ProblemError) as caught:
            await store.chain("t", "x")
        assert caught.value.problem.kind is ProblemKind.OVERLOADED

    asyncio.run(scenario())
