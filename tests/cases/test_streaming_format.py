"""What a stream looks like from its first byte to its end, whichever end that is."""

import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from refloat.testing.client import Answer, Transcript
from refloat.testing.harness import Server

pytestmark = pytest.mark.process

CHAT = "/v1/chat/completions"
ErrorOf = Callable[[Answer], dict[str, Any]]
TOOL: dict[str, Any] = {"type": "function", "function": {"name": "f", "parameters": {}}}


@pytest.fixture(scope="module")
def fainting_server(start_server: Callable[..., Server]) -> Iterator[Server]:
    """A model whose worker dies at the fifth token of `[die]`, and takes longer to come back than the
    server holds requests."""
    fault = {"at": "token", "token": 5, "kind": "kill", "match": "[die]", "times": 100}
    faint = {"faults": [fault], "engine_options": {"load_s": 1.0}}
    config = {
        "models": [{"model": "scripted", "name": "faint", **faint}],
        "server": {"hold_timeout_s": 0.1},
    }
    with start_server(config=config) as server:
        yield server


@pytest.fixture
def fainting(fainting_server: Server, serves: Callable[[Server], None]) -> Iterator[Server]:
    yield fainting_server
    fainting_server.wait_ready()
    serves(fainting_server)


def assert_ends_well(whole: Transcript, choices: int = 1) -> None:
    """Exactly one finish chunk for each choice, `[DONE]` last, no error."""
    assert whole.done
    assert whole.error is None
    assert sorted(index for index, _ in whole.finish_reasons()) == list(range(choices))


@pytest.mark.case(46)
@pytest.mark.parametrize("prompt", ["Hi", "Loop"])
def test_usage_chunk_equals_the_usage_of_the_whole_answer(scripted: Server, prompt: str) -> None:
    client = scripted.client()
    fields = {"model": "plain", "max_tokens": 40}
    whole = client.chat(prompt, **fields).json()
    with client.chat_stream(prompt, stream_options={"include_usage": True}, **fields) as stream:
        transcript = stream.transcript()
    *chunks, last = transcript.events
    assert last["choices"] == []
    for key in ("prompt_tokens", "completion_tokens", "total_tokens"):
        assert last["usage"][key] == whole["usage"][key]
    assert all(chunk["usage"] is None for chunk in chunks)
    assert_ends_well(transcript)


@pytest.mark.case(47, 8)
def test_engine_fault_in_mid_stream_is_an_error_frame(fainting: Server) -> None:
    client = fainting.client()
    with client.chat_stream("Count from 1 to 40 [die]", model="faint", tools=[TOOL]) as stream:
        assert stream.status == 200
        lines = list(stream.data())
    assert lines[-1] == "[DONE]"
    events = [json.loads(line) for line in lines[:-1]]
    error = events[-1]["error"]
    assert error["type"] == "server_error"
    assert error["code"] == "model_recovering"
    assert error["tokens_emitted"] == 5
    assert error["resumable"] is True
    said = [choice for event in events[:-1] for choice in event["choices"]]
    assert all(choice["finish_reason"] is None for choice in said)
    assert "".join(choice["delta"].get("content", "") for choice in said).startswith("1 2")


@pytest.mark.case(8)
def test_engine_fault_in_a_whole_answer_is_the_servers_own_error(
    fainting: Server, error_of: ErrorOf
) -> None:
    client = fainting.client()
    answer = client.chat("Count from 1 to 40 [die]", model="faint", tools=[TOOL])
    error = error_of(answer)
    assert answer.status == 503
    assert error["type"] == "server_error"
    assert error["code"] == "model_recovering"
    assert int(answer.headers["retry-after"]) >= 1


@pytest.mark.case(48)
@pytest.mark.parametrize("fields", [{}, {"max_tokens": 5000}])
def test_refusal_of_a_stream_is_an_honest_status(
    scripted: Server, error_of: ErrorOf, fields: dict[str, Any]
) -> None:
    prompt = "x" * (100 if fields else 5000)
    answer = scripted.client().chat(prompt, model="plain", stream=True, **fields)
    assert answer.status == 400
    assert error_of(answer)["code"] == "context_length_exceeded"


def stream_many(server: Server, model: str, count: int) -> None:
    """Streams with tools under load; each has to end properly."""
    client = server.client()

    def one(number: int) -> Transcript:
        prompt = f"Count from {number} to {number + 15}"
        with client.chat_stream(prompt, model=model, tools=[TOOL], max_tokens=60) as stream:
            assert stream.status == 200
            return stream.transcript()

    with ThreadPoolExecutor(16) as pool:
        for whole in pool.map(one, range(count)):
            assert_ends_well(whole)


@pytest.mark.case(49)
def test_every_stream_under_load_has_its_end(scripted: Server) -> None:
    stream_many(scripted, "plain", 150)


@pytest.mark.engine
@pytest.mark.case(49)
def test_every_stream_of_a_real_engine_under_load_has_its_end(engine: Server) -> None:
    stream_many(engine, "tiny-llm", 50)


@pytest.mark.soak
@pytest.mark.engine
@pytest.mark.case(49)
def test_every_stream_of_thousands_has_its_end(engine: Server) -> None:
    stream_many(engine, "tiny-llm", 2000)


@pytest.mark.case(51)
def test_plain_answer_beside_tools_finishes_with_stop(scripted: Server) -> None:
    client = scripted.client()
    for _ in range(50):
        with client.chat_stream("Hi", model="plain", tools=[TOOL]) as stream:
            whole = stream.transcript()
        assert whole.finish_reasons() == [(0, "stop")]
        assert whole.events[-1]["choices"][0]["finish_reason"] == "stop"
        assert whole.text() == "Hello! How can I help you today?"


@pytest.mark.engine
@pytest.mark.case(51)
def test_plain_answer_of_a_real_model_beside_tools_finishes_with_stop(engine: Server) -> None:
    client = engine.client()
    for _ in range(5):
        fields = {"tools": [TOOL], "chat_template_kwargs": {"enable_thinking": False}}
        with client.chat_stream("Hi", model="tiny-scripted", **fields) as stream:
            whole = stream.transcript()
        assert whole.finish_reasons() == [(0, "stop")]
        assert whole.text() == client.chat("Hi", model="tiny-scripted", **fields).text


@pytest.mark.case(53)
@pytest.mark.parametrize("options", [None, {}, {"include_usage": False}, {"include_usage": None}])
def test_usage_comes_only_when_asked_for(scripted: Server, options: Any) -> None:
    fields = {} if options is None else {"stream_options": options}
    with scripted.client().chat_stream("Hi", model="plain", **fields) as stream:
        whole = stream.transcript()
    assert all("usage" not in event for event in whole.events)
    assert_ends_well(whole)


@pytest.mark.case(53)
@pytest.mark.parametrize("stream", [False, None])
def test_stream_options_without_a_stream_are_refused(
    scripted: Server, error_of: ErrorOf, stream: bool | None
) -> None:
    options = {"include_usage": True}
    answer = scripted.client().chat("Hi", model="plain", stream=stream, stream_options=options)
    assert answer.status == 400
    assert error_of(answer)["param"] == "stream_options"


@pytest.mark.case(54)
def test_stream_headers_forbid_buffering_and_the_first_chunk_precedes_the_end(
    scripted: Server,
) -> None:
    client = scripted.client()
    body = client.chat_body("Count from 1 to 900", model="narrow", max_tokens=2000, stream=True)
    with client.stream(CHAT, body, Accept_Encoding="gzip, br") as stream:
        assert stream.status == 200
        assert stream.headers["content-type"].startswith("text/event-stream")
        assert stream.headers["cache-control"] == "no-cache"
        assert stream.headers["x-accel-buffering"] == "no"
        assert "content-encoding" not in stream.headers
        first = json.loads(next(stream.data()))
        assert first["choices"][0]["delta"]["role"] == "assistant"
        assert client.metric("refloat_running", model="narrow") == 1
