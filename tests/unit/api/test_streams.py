"""Answers over a real socket: streams, their status, their failures, and clients that leave."""

import asyncio
import http.client
import json
from typing import Any

import pytest
import structlog

from refloat.api.errors import ClientGoneError
from refloat.api.watch import ClientWatch
from refloat.generation.events import ChoiceEnd, Completed, Delta, Failed, FinishReason, Usage
from refloat.testing.client import Client
from refloat.wire.problem import Problem, ProblemKind

DEADLINE_S = 20.0
CHAT = "/v1/chat/completions"
COMPLETIONS = "/v1/completions"
ENGINE = Problem(ProblemKind.ENGINE_ERROR, "The engine failed.", tokens_emitted=1, resumable=False)


def chat(**fields: Any) -> dict[str, Any]:
    return {"model": "m", "messages": [{"role": "user", "content": "Hi"}], **fields}


def text(**fields: Any) -> dict[str, Any]:
    return {"model": "m", "prompt": "Hi", **fields}


BODIES: list[tuple[str, Any]] = [(CHAT, chat), (COMPLETIONS, text)]


@pytest.mark.parametrize(("path", "body"), BODIES)
@pytest.mark.parametrize("n", [1, 3])
@pytest.mark.parametrize("logprobs", [False, True])
def test_stream_equals_its_twin(gateway: Any, path: str, body: Any, n: int, logprobs: bool) -> None:
    client = Client(gateway.url)
    asked: dict[str, Any] = {"n": n}
    if logprobs:
        asked["logprobs"] = True if path == CHAT else 1
    whole = client.post(path, body(**asked)).json()
    with client.stream(
        path, body(**asked, stream=True, stream_options={"include_usage": True})
    ) as s:
        transcript = s.transcript()
    assert transcript.done
    assert transcript.error is None
    for choice in whole["choices"]:
        expected = choice["message"]["content"] if path == CHAT else choice["text"]
        assert transcript.text(choice["index"]) == expected == "Hello Zürich 東京\u2028🚲!"
    assert sorted(transcript.finish_reasons()) == [(i, "stop") for i in range(n)]
    assert transcript.usage == whole["usage"]
    assert whole["usage"]["completion_tokens"] == 5 * n
    assert whole["usage"]["prompt_tokens_details"]["cached_tokens"] == 3


def test_stream_headers_suit_proxies(gateway: Any) -> None:
    with Client(gateway.url).stream(CHAT, chat(stream=True)) as s:
        assert s.status == 200
        assert s.headers["content-type"].startswith("text/event-stream")
        assert s.headers["cache-control"] == "no-cache"
        assert s.headers["x-accel-buffering"] == "no"
        assert s.headers["x-request-id"]
        assert s.transcript().done


@pytest.mark.parametrize("options", [{}, {"stream_options": {}}, {"stream_options": None},
                                     {"stream_options": {"include_usage": False}}])  # fmt: skip
def test_usage_comes_only_if_asked_for(gateway: Any, options: dict[str, Any]) -> None:
    with Client(gateway.url).stream(CHAT, chat(stream=True, **options)) as s:
        assert all("usage" not in event for event in s.transcript().events)


def test_usage_comes_once_and_last(gateway: Any) -> None:
    body = chat(stream=True, stream_options={"include_usage": True})
    with Client(gateway.url).stream(CHAT, body) as s:
        events = s.transcript().events
    assert [e["usage"] is None for e in events] == [True] * (len(events) - 1) + [False]
    assert events[-1]["choices"] == []


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(("kind", "status"), [
    (ProblemKind.QUEUE_FULL, 429),
    (ProblemKind.MODEL_RECOVERING, 503),
    (ProblemKind.CONTEXT_LENGTH_EXCEEDED, 400),
    (ProblemKind.POISON_REQUEST, 500),
])  # fmt: skip
def test_refusal_is_a_plain_status_in_both_modes(
    gateway: Any, stream: bool, kind: ProblemKind, status: int
) -> None:
    gateway.generations.problem = Problem(kind, "no", retry_after_s=120.0)
    answer = Client(gateway.url).post(CHAT, chat(stream=stream))
    assert answer.status == status
    assert answer.headers["content-type"] == "application/json"
    assert answer.json()["error"]["code"] == kind.value
    if status in (429, 503):
        assert 1 <= int(answer.headers["retry-after"]) <= 60
        assert answer.json()["error"]["retry_after_s"] == 120.0


@pytest.mark.parametrize("stream", [False, True])
def test_failure_before_anything_was_sent_is_a_plain_status(gateway: Any, stream: bool) -> None:
    gateway.generations.says([Failed(ENGINE)])
    answer = Client(gateway.url).post(CHAT, chat(stream=stream))
    assert (answer.status, answer.json()["error"]["code"]) == (500, "engine_error")
    assert gateway.generations.last.ended.wait(DEADLINE_S)


@pytest.mark.parametrize(("path", "body"), BODIES)
def test_failure_in_a_stream_is_an_error_event_and_done(gateway: Any, path: str, body: Any) -> None:
    gateway.generations.says([Delta(0, "a")])
    with Client(gateway.url).stream(path, body(stream=True)) as s:
        data = s.data()
        payloads = [next(data)]
        gateway.generations.last.put([Delta(0, "b"), Failed(ENGINE)])
        payloads += list(data)
    assert payloads[-1] == "[DONE]"
    error = json.loads(payloads[-2])["error"]
    assert (error["code"], error["tokens_emitted"], error["resumable"]) == (
        "engine_error",
        1,
        False,
    )
    chunks = [json.loads(p) for p in payloads[:-2]]
    assert all(c["choices"][0]["finish_reason"] is None for c in chunks)


@pytest.mark.parametrize("begun", [False, True])
@pytest.mark.parametrize("stream", [False, True])
def test_unexpected_exception_ends_the_answer_without_internals(
    gateway: Any, begun: bool, stream: bool
) -> None:
    gateway.generations.says(*([[Delta(0, "a")]] if begun else []))
    client = Client(gateway.url)
    secret = RuntimeError("/build/secret/path")
    if not (begun and stream):
        gateway.generations.error = secret
        with structlog.testing.capture_logs() as lines:
            answer = client.post(CHAT, chat(stream=stream))
        assert [line["exc_info"] for line in lines if line["log_level"] == "error"] == [secret]
        assert (answer.status, answer.json()["error"]["type"]) == (500, "server_error")
        assert answer.headers["x-request-id"] in answer.json()["error"]["message"]
        assert b"secret" not in answer.body
        return
    with structlog.testing.capture_logs(), client.stream(CHAT, chat(stream=True)) as s:
        data = s.data()
        next(data)
        gateway.generations.last.put(secret)
        rest = list(data)
    assert rest[-1] == "[DONE]"
    assert json.loads(rest[-2])["error"]["code"] == "internal_error"
    assert "secret" not in rest[-2]


def test_status_is_withheld_and_then_kept_alive(gateway_with: Any) -> None:
    gateway = gateway_with(header_delay_s=0.05)
    gateway.generations.says()
    connection = http.client.HTTPConnection("127.0.0.1", gateway.port, timeout=DEADLINE_S)
    headers = {"Content-Type": "application/json"}
    connection.request("POST", CHAT, json.dumps(chat(stream=True)), headers)
    answer = connection.getresponse()  # comes although no token has
    assert answer.status == 200
    assert answer.readline() == b": waiting\n"
    gateway.generations.last.put([Failed(ENGINE)])
    rest = answer.read().decode().split("\n\n")
    assert json.loads(rest[-3].removeprefix("\ndata: ").removeprefix("data: "))["error"]
    assert rest[-2] == "data: [DONE]"
    connection.close()


@pytest.mark.parametrize("stream", [False, True])
def test_leaving_client_ends_its_session(gateway: Any, stream: bool) -> None:
    gateway.generations.says([Delta(0, "a")])
    connection = http.client.HTTPConnection("127.0.0.1", gateway.port, timeout=DEADLINE_S)
    headers = {"Content-Type": "application/json"}
    connection.request("POST", CHAT, json.dumps(chat(stream=stream)), headers)
    if stream:
        connection.getresponse().readline()
    assert gateway.generations.submitted.wait(DEADLINE_S)
    connection.close()
    assert connection.sock is None
    if stream:
        # the response object holds the socket: drop it
        del connection
    assert wait_for_session(gateway).ended.wait(DEADLINE_S)
    assert Client(gateway.url).get("/v2/health/live").status == 200


def wait_for_session(gateway: Any) -> Any:
    while not gateway.generations.sessions:
        assert gateway.generations.submitted.wait(DEADLINE_S)
    return gateway.generations.last


@pytest.mark.parametrize("stream", [False, True])
def test_leaving_client_ends_its_wait_for_a_session(gateway: Any, stream: bool) -> None:
    gateway.generations.holds = True
    before = gateway.count("refloat_aborted_total", model="m")
    connection = http.client.HTTPConnection("127.0.0.1", gateway.port, timeout=DEADLINE_S)
    headers = {"Content-Type": "application/json"}
    connection.request("POST", CHAT, json.dumps(chat(stream=stream)), headers)
    assert gateway.generations.submitted.wait(DEADLINE_S)
    connection.close()
    assert gateway.generations.cancelled.wait(DEADLINE_S)
    gateway.generations.holds = False
    assert Client(gateway.url).post(CHAT, chat()).status == 200
    assert gateway.count("refloat_aborted_total", model="m") == before + 1


def test_bodies_are_given_back_to_the_budget(gateway: Any) -> None:
    client = Client(gateway.url)
    nothing: dict[str, Any] = {"model": "x"}
    for body in (chat(), chat(stream=True), chat(n=0), nothing, b"{"):
        client.post(CHAT, body)
    gateway.settle()
    assert gateway.budget.held_bytes == 0


def test_choices_that_ended_before_a_failure_keep_their_finish(gateway: Any) -> None:
    done = ChoiceEnd(0, FinishReason.STOP)
    gateway.generations.says([Delta(0, "a"), done])
    with Client(gateway.url).stream(CHAT, chat(stream=True, n=2)) as s:
        data = s.data()
        payloads = [next(data) for _ in range(4)]
        gateway.generations.last.put([Failed(ENGINE)])
        payloads += list(data)
    reasons = [json.loads(p)["choices"][0]["finish_reason"] for p in payloads[:-2]]
    assert [r for r in reasons if r] == ["stop"]
    assert "error" in json.loads(payloads[-2])


def test_empty_answer_is_a_whole_one(gateway: Any) -> None:
    end = [ChoiceEnd(0, FinishReason.STOP), Completed(Usage(1, 1, 0))]
    gateway.generations.says(end)
    client = Client(gateway.url)
    assert client.post(CHAT, chat()).text == ""
    with client.stream(CHAT, chat(stream=True)) as s:
        transcript = s.transcript()
    assert (transcript.text(), transcript.finish_reasons(), transcript.done) == (
        "",
        [(0, "stop")],
        True,
    )


# --- the watch alone ------------------------------------------------------------------------------


async def _left() -> Any:
    return {"type": "http.disconnect"}


async def _stays() -> Any:
    return await asyncio.get_running_loop().create_future()


def test_watch_unwinds_its_body_when_the_client_leaves() -> None:
    async def scenario() -> None:
        with pytest.raises(ClientGoneError):
            async with ClientWatch(_left):
                await asyncio.get_running_loop().create_future()
        assert asyncio.current_task().cancelling() == 0  # type: ignore[union-attr]

    asyncio.run(scenario())


def test_watch_leaves_errors_and_outer_cancels_alone() -> None:
    async def inner() -> None:
        async with ClientWatch(_stays):
            await asyncio.get_running_loop().create_future()

    async def scenario() -> None:
        with pytest.raises(KeyError):
            async with ClientWatch(_stays):
                raise KeyError
        task = asyncio.create_task(inner())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(scenario())


def test_watch_ignores_a_disconnect_after_the_answer() -> None:
    async def scenario() -> str:
        gone = asyncio.Event()

        async def receive() -> Any:
            await gone.wait()
            return {"type": "http.disconnect"}

        async with ClientWatch(receive) as client:
            await asyncio.sleep(0)
            gone.set()
            client.finish()
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        return "kept"

    assert asyncio.run(scenario()) == "kept"
