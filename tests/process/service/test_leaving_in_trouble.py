"""Clients that leave while their model recovers, and deadlines that pass, through the whole server."""

import os
import signal
from collections.abc import Iterator
from typing import Any

import pytest

from refloat.testing.client import Client
from refloat.testing.harness import Server
from refloat.testing.patience import eventually

pytestmark = pytest.mark.process

CHAT = "/v1/chat/completions"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    model = {"model": "scripted", "name": "m", "max_num_seqs": 2}
    guarded = {"model": "scripted", "name": "guarded", "loop_guard_tokens": 64}
    loop = {"match": "Loop", "text": "again and again ", "finish": "length"}
    config = {
        "models": [
            {**model, "engine_options": {"step_s": 0.01, "load_s": 1.0}},
            {**guarded, "engine_options": {"rules": [loop]}, "request_timeout_s": 60},
            {"model": "scripted", "name": "capped", "max_generation_s": 0.5,
             "engine_options": {"step_s": 0.01}},
        ],
        "server": {"ready_when": "all"},
    }  # fmt: skip
    env = {"REFLOAT_HOME": str(tmp_path_factory.mktemp("home"))}
    with Server.start(config=config, env=env, log_level="info") as started:
        yield started


@pytest.fixture
def client(server: Server) -> Client:
    return server.client()


def body(client: Client, text: str = "Count from 1 to 900", **fields: Any) -> dict[str, Any]:
    fields.setdefault("model", "m")
    return client.chat_body(text, max_tokens=2000, **fields)


@pytest.mark.parametrize("stream", [True, False])
def test_client_gone_while_its_model_recovers_is_not_generated_for(
    server: Server, client: Client, stream: bool
) -> None:
    gone = client.begin(CHAT, body(client, stream=stream))
    stays = client.begin(CHAT, body(client, "Count from 1 to 40"))
    running = lambda: client.metric("refloat_running", model="m")  # noqa: E731
    eventually(lambda: running() == 2, what="both to run")
    resumed = len(server.events("generation_resumed"))
    aborted = client.metric("refloat_aborted_total", model="m")
    pid = server.worker_pid("m")
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    eventually(lambda: client.metric("refloat_waiting", model="m") == 2, what="both to be parked")
    gone.close()
    eventually(lambda: client.metric("refloat_aborted_total", model="m") == aborted + 1, what="it")
    whole = stays.getresponse()
    assert whole.status == 200
    assert b"39 40" in whole.read()
    stays.close()
    assert len(server.events("generation_resumed")) == resumed + 1
    eventually(lambda: running() == 0, what="nothing to run")


def test_deadline_is_a_504_before_the_stream_and_an_event_in_it(client: Client) -> None:
    refused = client.post(CHAT, body(client, request_timeout_s=0.3))
    assert (refused.status, refused.json()["error"]["code"]) == (504, "deadline_exceeded")
    assert refused.headers["x-should-retry"] == "false"
    with client.stream(CHAT, body(client, stream=True), **{"X-Request-Timeout": "0.5"}) as stream:
        assert stream.status == 200
        whole = stream.transcript()
    assert whole.error is not None
    assert whole.error["code"] == "deadline_exceeded"
    assert whole.error["tokens_emitted"] > 0
    assert whole.finish_reasons() == []
    assert whole.done
    eventually(lambda: client.metric("refloat_running", model="m") == 0, what="both to stop")


@pytest.mark.case(19)
def test_loop_and_endless_answer_end_with_length_and_say_why(
    server: Server, client: Client
) -> None:
    loop = client.post(CHAT, client.chat_body("Loop", model="guarded")).json()
    assert 64 <= loop["usage"]["completion_tokens"] <= 96
    [choice] = loop["choices"]
    assert (choice["finish_reason"], choice["stop_reason"]) == ("length", "repetition")
    with client.stream(CHAT, body(client, model="capped", stream=True)) as stream:
        last = [e["choices"][0] for e in stream.transcript().events if e["choices"]][-1]
    assert (last["finish_reason"], last["stop_reason"]) == ("length", "max_generation_s")
    eventually(lambda: len(server.events("answer_cut")) == 2, what="the log to say so")
