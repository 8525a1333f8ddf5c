"""Health: the truth about serving, whatever else is going on."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from refloat.testing.harness import Server
from refloat.testing.patience import eventually

pytestmark = pytest.mark.process

CHAT = "/v1/chat/completions"
StartServer = Callable[..., Server]


@pytest.mark.case(130)
def test_health_answers_while_every_seat_and_the_queue_are_taken(scripted: Server) -> None:
    client = scripted.client(timeout_s=10)
    body = client.chat_body("Count from 1 to 900", model="narrow", max_tokens=2000)
    held = [client.begin(CHAT, body) for _ in range(3)]
    try:
        eventually(lambda: client.metric("refloat_waiting", model="narrow") == 2, what="a queue")
        for _ in range(20):
            for path in ("/v2/health/live", "/v2/health/ready", "/v2/models/narrow/ready"):
                assert client.get(path).status == 200
        assert client.metric("refloat_waiting", model="narrow") == 2
    finally:
        for connection in held:
            connection.close()
    eventually(lambda: client.metric("refloat_running", model="narrow") == 0, what="the end")


def cold(load_s: float) -> dict[str, Any]:
    """A configuration whose model takes so long to load."""
    options = {"engine_options": {"load_s": load_s}}
    return {"models": [{"model": "scripted", "name": "cold", **options}]}


@pytest.mark.case(128, 131)
def test_readiness_is_503_until_a_request_would_be_served_and_many_early_ones_make_one_load(
    start_server: StartServer,
) -> None:
    with start_server(config=cold(2), ready=False) as server, ThreadPoolExecutor(20) as pool:
        client = server.client()
        assert client.get("/v2/health/live").status == 200
        assert client.get("/v2/health/ready").status == 503
        assert client.get("/v2/models/cold/ready").status == 503
        assert client.get("/health").json()["models"][0]["state"] == "loading"
        states = client.get("/v1/config").json()["cold"]["model_version_status"]
        assert states[0]["state"] == "LOADING"
        early = [pool.submit(client.chat, "Hi", model="cold") for _ in range(20)]
        server.wait_ready()
        assert client.chat("Hi", model="cold").status == 200
        assert [future.result().status for future in early] == [200] * 20
        assert client.get("/v1/config").json()["cold"]["model_version_status"][0]["state"] == (
            "AVAILABLE"
        )
        loads = [entry for entry in server.events("slot_state") if entry["state"] == "loading"]
        assert sorted(entry["program"] for entry in loads) == ["prep", "worker"]


@pytest.mark.case(131)
def test_request_that_outwaits_the_hold_time_is_told_when_to_retry(
    start_server: StartServer,
) -> None:
    config = {**cold(2), "server": {"hold_timeout_s": 0.1}}
    with start_server(config=config, ready=False) as server:
        client = server.client()
        answer = client.chat("Hi", model="cold")
        assert answer.status == 503
        assert int(answer.headers["retry-after"]) >= 1
        assert answer.json()["error"]["code"] == "model_loading"
        server.wait_ready()
        assert client.chat("Hi", model="cold").status == 200
