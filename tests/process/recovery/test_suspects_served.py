"""Suspects, ladder, breaker and reset through the whole server, on the scripted engine."""

import http.client
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from refloat.testing.client import Answer
from refloat.testing.harness import Server
from refloat.testing.patience import eventually

pytestmark = [pytest.mark.process, pytest.mark.timeout(180)]

COUNTED = " ".join(str(number) for number in range(1, 31))
ASK = "Count from 1 to 30"
POISON = f"{ASK} [poison]"
StartServer = Callable[..., Server]


@pytest.fixture
def start(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StartServer]:
    """Starts servers with one scripted model, `m`, and leaves none behind."""
    home = tmp_path_factory.mktemp("home")
    started: list[Server] = []

    def start_one(*faults: dict[str, Any], **settings: Any) -> Server:
        model = {"model": "scripted", "name": "m", "faults": list(faults), **settings}
        server = Server.start(config={"models": [model]}, env={"REFLOAT_HOME": str(home)})
        started.append(server)
        return server

    yield start_one
    for server in started:
        server.close()


def fault(at: str, kind: str, **more: Any) -> dict[str, Any]:
    return {"at": at, "kind": kind, "match": "[poison]", "times": 1000, **more}


def model_of(server: Server) -> dict[str, Any]:
    model: dict[str, Any] = server.client().get("/health").json()["models"][0]
    return model


def ask_together(server: Server, prompts: list[str], **fields: Any) -> list[Answer]:
    """The answers to all of these, asked at the same time."""
    answers: dict[int, Answer] = {}

    def ask(index: int, prompt: str) -> None:
        answers[index] = server.client(timeout_s=120).chat(prompt, **fields)

    threads = [threading.Thread(target=ask, args=item) for item in enumerate(prompts)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(answers) == len(prompts), server.log_text()
    return [answers[index] for index in range(len(prompts))]


@pytest.mark.parametrize(
    "poison",
    [
        pytest.param(fault("add", "segv"), id="added"),
        pytest.param(fault("step", "context_fatal"), id="prefill"),
        pytest.param(fault("token", "raise", token=9), id="decode"),
        pytest.param(fault("token", "abort", token=9), id="decode-abort"),
    ],
)
def test_one_poison_among_sixteen_gets_its_500_and_fifteen_answers_are_whole(
    start: StartServer, poison: dict[str, Any]
) -> None:
    server = start(poison, engine_options={"step_s": 0.002})
    prompts = [ASK] * 7 + [POISON] + [ASK] * 8
    answers = ask_together(server, prompts)
    guilty = answers.pop(7)
    for answer in answers:
        assert (answer.status, answer.text) == (200, COUNTED), server.log_text()
    assert guilty.status == 500, server.log_text()
    error = guilty.json()["error"]
    assert error["code"] == "poison_request"
    assert error["resumable"] is False
    assert error["incident_id"]
    assert guilty.headers["x-should-retry"] == "false"
    assert 2 <= sum(model_of(server)["restarts"].values()) <= 4
    assert server.client().metric("refloat_convictions_total", model="m") == 1
    eventually(lambda: model_of(server)["state"] == "ready", what="the model to be ready")
    assert model_of(server)["rung"] == 0, "the culprit is gone, and with it the reason to be slow"
    assert server.client().chat(ASK).text == COUNTED


def test_request_that_kills_only_at_full_speed_is_answered_on_the_next_rung(
    start: StartServer,
) -> None:
    server = start(fault("token", "segv", token=4, max_rung=0), max_num_seqs=16)
    assert server.client(timeout_s=120).chat(POISON).text == COUNTED
    model = model_of(server)
    assert model["rung"] == 1
    assert server.client().metric("refloat_ladder_rung", model="m") == 1
    [entry] = server.events("ladder_rung")
    assert (entry["rung"], entry["before"], entry["max_num_batched_tokens"]) == (1, 0, 256)
    assert server.client().chat(POISON).text == COUNTED, "at once, on that rung"
    assert sum(model_of(server)["restarts"].values()) == 2

    answer = server.client().post("/admin/models/m/reset", None)
    assert answer.json() == {"model": "m", "state": "ready", "restarts": True}
    eventually(
        lambda: model_of(server)["rung"] == 0 and model_of(server)["state"] == "ready",
        what="the model to be ready at full speed",
    )
    assert server.client().chat(ASK).text == COUNTED


def test_rung_that_cannot_be_loaded_is_passed_over(start: StartServer) -> None:
    ladder = [{"device": "NOWHERE"}, {"max_num_seqs": 3}]
    server = start(
        fault("token", "segv", token=4, max_rung=0),
        {"at": "load", "kind": "raise", "times": 1, "skip": 2},
        ladder=ladder,
    )
    assert server.client(timeout_s=120).chat(POISON).text == COUNTED
    assert model_of(server)["rung"] == 2
    assert [entry["rung"] for entry in server.events("ladder_rung")] == [1, 2]


def test_signals_from_outside_convict_nobody_however_often(start: StartServer) -> None:
    server = start(engine_options={"step_s": 0.05})
    with server.client(timeout_s=120).chat_stream(ASK, stream_options={}) as stream:
        tokens = stream.data()
        for _ in range(10):
            for _ in range(3):
                next(tokens)
            server.kill_worker()
        rest = stream.transcript()
    assert rest.error is None
    assert rest.done
    assert server.client().metric("refloat_convictions_total", model="m") == 0
    assert model_of(server)["rung"] == 0
    losses = server.events("replica_lost")
    assert len(losses) == 10
    assert {loss["alone"] for loss in losses} == {0}


def test_breaker_opens_after_faults_without_progress_and_a_reset_closes_it(
    start: StartServer,
) -> None:
    server = start()
    for _ in range(5):
        pid = server.kill_worker()
        eventually(lambda gone=pid: server.worker_pid() != gone, what="the worker to be gone")
        eventually(lambda: model_of(server)["state"] in ("ready", "failed"), what="an outcome")
    model = model_of(server)
    assert model["state"] == "failed"
    assert "SIGKILL" in model["reason"]
    refused = server.client().chat(ASK)
    assert (refused.status, refused.json()["error"]["code"]) == (503, "model_failed")
    assert "SIGKILL" in refused.json()["error"]["message"]
    assert server.client().get("/v2/health/ready").status == 503
    assert server.client().get("/v2/health/live").status == 200

    answer = server.client().post("/admin/models/m/reset", {})
    assert answer.json() == {"model": "m", "state": "failed", "restarts": True}
    server.wait_ready()
    assert server.client().chat(ASK).text == COUNTED
    assert server.client().post("/admin/models/m/reset", {}).json()["restarts"] is False


def test_tenant_with_three_convictions_waits_and_is_told_how_long(start: StartServer) -> None:
    server = start(fault("add", "segv"))
    for _ in range(3):
        assert server.client(timeout_s=120).chat(POISON).status == 500
    refused = server.client().chat(ASK)
    assert (refused.status, refused.json()["error"]["code"]) == (429, "tenant_suspended")
    assert 0 < int(refused.headers["retry-after"]) <= 60
    assert refused.json()["error"]["retry_after_s"] > 60
    server.wait_ready()


def test_client_of_a_suspect_that_leaves_lets_the_others_go_on(start: StartServer) -> None:
    server = start(fault("step", "segv"), engine_options={"step_s": 0.01})
    body = server.client().chat_body(POISON)
    gone: http.client.HTTPConnection = server.client().begin("/v1/chat/completions", body)
    eventually(lambda: len(server.events("replica_lost")) >= 2, what="two workers to be lost")
    gone.close()
    assert server.client(timeout_s=120).chat(ASK).text == COUNTED
    assert server.client().metric("refloat_convictions_total", model="m") <= 1
