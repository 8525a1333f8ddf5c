"""Clients that come back, through the server: by stream id, idempotency key, or an SDK's own retry."""

import http.client
import json
import os
import signal
from collections.abc import Iterator
from typing import Any

import pytest

from refloat.testing.client import Client, EventStream
from refloat.testing.harness import Server
from refloat.testing.patience import eventually

pytestmark = pytest.mark.process

CHAT = "/v1/chat/completions"
COUNT = "Count from 1 to 50"
KEYS = ("key-a", "key-b")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("keys")
    for key in KEYS:
        (folder / key).write_text(key)
    keys: list[dict[str, Any]] = [{"name": key, "key_file": str(folder / key)} for key in KEYS]
    keys[0] |= {"finish_orphans": 1, "admin": True}
    config = {
        "models": [
            {"model": "scripted", "name": "m", "engine_options": {"step_s": 0.005}},
            {
                "model": "scripted",
                "name": "n",
                "max_num_seqs": 1,
                "engine_options": {"step_s": 0.005},
            },
        ],
        "server": {"keys": keys, "reconnect_window_s": 20, "allow_open": True},
    }
    env = {"REFLOAT_HOME": str(folder / "home")}
    with Server.start(config=config, env=env) as started:
        started.wait_ready()
        yield started


@pytest.fixture
def client(server: Server) -> Client:
    found = server.client(api_key=KEYS[0])
    for model in ("m", "n"):  # what an earlier test left behind has come to its end
        eventually(lambda model=model: running(found, model) == 0, what="nothing to run")
    return found


def body(**fields: Any) -> dict[str, Any]:
    return {
        "model": "m",
        "messages": [{"role": "user", "content": COUNT}],
        "temperature": 0,
        "max_tokens": 400,
        **fields,
    }


def running(client: Client, model: str = "m") -> float:
    return client.metric("refloat_running", model=model)


def generated(client: Client, model: str = "m") -> float:
    return client.metric("refloat_generated_tokens_total", model=model)


def events(lines: Iterator[bytes]) -> Iterator[tuple[int | None, str]]:
    """(id, data) of each event, as the SSE standard reads them."""
    number: int | None = None
    for line in lines:
        text = line.decode().rstrip("\n")
        if text.startswith("id: "):
            number = int(text[4:])
        elif text.startswith("data: "):
            yield number, text[6:]


def resumed(client: Client, stream_id: str, path: str = "", **headers: str) -> list[Any]:
    """What a stream still says, to its end."""
    answer = client.request("GET", f"/v1/streams/{stream_id}{path}", headers=headers)
    assert answer.status == 200, answer.body
    assert answer.headers["content-type"].startswith("text/event-stream")
    return list(events(iter(answer.body.split(b"\n"))))


def said(data: list[str]) -> str:
    parts: list[str] = []
    for payload in data:
        if payload != "[DONE]":
            parts += [c["delta"].get("content") or "" for c in json.loads(payload)["choices"]]
    return "".join(parts)


def begin(client: Client, **fields: Any) -> tuple[EventStream, Iterator[tuple[int | None, str]]]:
    stream = client.stream(CHAT, body(stream=True, **fields))
    answer: http.client.HTTPResponse = stream._answer  # pyright: ignore[reportPrivateUsage]
    return stream, events(iter(answer))


def test_stream_goes_on_where_its_reader_had_come_to(client: Client) -> None:
    whole = client.post(CHAT, body()).text
    stream, found = begin(client)
    with stream:
        stream_id = stream.headers["x-stream-id"]
        seen = [next(found) for _ in range(20)]
        assert json.loads(seen[0][1])["id"] == stream_id
    last = seen[-1][0]
    assert last is not None
    rest = resumed(client, stream_id, **{"Last-Event-ID": str(last)})
    assert rest[-1][1] == "[DONE]"
    assert next(number for number, _ in rest if number is not None) == last + 1
    assert said([data for _, data in [*seen, *rest]]) == whole
    assert {json.loads(data)["id"] for _, data in rest[:-1]} == {stream_id}
    again = resumed(client, stream_id, f"?after={last}")
    assert again == rest
    assert said([data for _, data in resumed(client, stream_id)]) == whole
    assert resumed(client, stream_id, f"?after={rest[-1][0]}") == [(None, "[DONE]")]


def test_resumed_stream_survives_its_worker(client: Client) -> None:
    whole = client.post(CHAT, body()).text
    stream, found = begin(client)
    with stream:
        seen = [next(found) for _ in range(10)]
        pid = client.get("/health").json()["models"][0]["workers"][0]["pid"]
    os.kill(pid, signal.SIGKILL)
    rest = resumed(client, stream.headers["x-stream-id"], f"?after={seen[-1][0]}")
    assert said([data for _, data in [*seen, *rest]]) == whole


def test_nobody_reads_another_tenants_stream(server: Server, client: Client) -> None:
    stream, found = begin(client)
    with stream:
        next(found)
        stream_id = stream.headers["x-stream-id"]
        other = server.client(api_key=KEYS[1])
        strange = other.get(f"/v1/streams/{stream_id}")
        unknown = other.get("/v1/streams/chatcmpl-" + "0" * 32)
        assert (strange.status, strange.body) == (404, unknown.body)
        assert client.get(f"/v3/streams/{stream_id}?after=x").status == 400
        assert client.get(f"/v3/streams/{stream_id}?after=99999").status == 400
        assert client.request("HEAD", f"/v1/streams/{stream_id}").status == 200


def test_repeated_post_with_a_key_gets_the_same_generation(client: Client) -> None:
    key = {"Idempotency-Key": "order-1"}
    before = generated(client)
    connection = client.begin(CHAT, body(), **key)
    eventually(lambda: generated(client) > before, what="the first to run")
    connection.close()
    second = client.post(CHAT, body(), **key)
    third = client.post(CHAT, body(), **key)
    assert second.status == third.status == 200
    assert second.body == third.body
    assert second.headers["idempotent-replayed"] == "true"
    assert generated(client) - before == second.json()["usage"]["completion_tokens"]
    other = client.post(CHAT, body(seed=1), **key)
    assert (other.status, other.json()["error"]["code"]) == (422, "idempotency_mismatch")


def test_sdks_own_retry_gets_what_its_first_try_began(client: Client) -> None:
    before = generated(client)
    first = client.begin(CHAT, body(user="sdk"), **{"x-stainless-retry-count": "0"})
    eventually(lambda: generated(client) > before, what="the first to run")
    first.close()
    eventually(lambda: client.metric("refloat_orphans") == 1, what="the first to be gone")
    answer = client.post(CHAT, body(user="sdk"), **{"x-stainless-retry-count": "1"})
    assert answer.status == 200
    assert generated(client) - before == answer.json()["usage"]["completion_tokens"]


@pytest.mark.case(41)
def test_orphan_of_an_sdk_makes_nobody_wait(client: Client) -> None:
    """Five tries of a client that gives up: one generation, and none once somebody waits."""
    long = body(model="n", messages=[{"role": "user", "content": "Count from 1 to 900"}],
                max_tokens=3000)  # fmt: skip
    for retry in range(5):
        connection = client.begin(CHAT, long, **{"x-stainless-retry-count": str(retry)})
        eventually(lambda: running(client, "n") == 1, what="the try to run")
        connection.close()
        eventually(lambda: client.metric("refloat_orphans") == 1, what="the try to be gone")
        assert client.metric("refloat_waiting", model="n") == 0
    short = body(model="n", messages=[{"role": "user", "content": "Hi"}])
    assert client.post(CHAT, short).status == 200
    eventually(lambda: running(client, "n") == 0, what="the orphan to be gone")


def test_granted_generation_finishes_without_its_client(client: Client, server: Server) -> None:
    stream, found = begin(client, on_disconnect="finish", user="finish")
    with stream:
        next(found)
        stream_id = stream.headers["x-stream-id"]
    whole = [data for _, data in resumed(client, stream_id)]
    assert whole[-1] == "[DONE]"
    assert said(whole).endswith("49 50")
    refused = server.client(api_key=KEYS[1]).post(CHAT, body(on_disconnect="finish"))
    assert refused.status == 403
