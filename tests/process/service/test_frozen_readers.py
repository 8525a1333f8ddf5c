"""A relay that stops reading and keeps its sockets open costs nobody else anything."""

import json
import socket
from collections.abc import Iterator
from typing import Any

import psutil
import pytest

from refloat.testing.client import Client
from refloat.testing.harness import Server
from refloat.testing.patience import eventually

pytestmark = pytest.mark.process

SLOTS = 4
LOOP = {"match": "Loop", "text": "again and again ", "finish": "length"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    model = {"model": "scripted", "name": "m", "max_num_seqs": SLOTS}
    options = {"engine_options": {"rules": [LOOP], "step_s": 0.001}}
    config = {
        "models": [{**model, **options}],
        "server": {"slow_reader_timeout_s": 2, "stream_buffer_bytes": 65536},
    }
    env = {"REFLOAT_HOME": str(tmp_path_factory.mktemp("home"))}
    with Server.start(config=config, env=env, log_level="info") as started:
        yield started


def frozen(server: Server, path: str, body: dict[str, Any]) -> socket.socket:
    """A request whose answer nobody reads."""
    host, port = server.url.removeprefix("http://").split(":")
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    sock.connect((host, int(port)))
    data = json.dumps(body).encode()
    head = f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(data)}\r\n\r\n"
    sock.sendall(head.encode() + data)
    return sock


def descriptors(server: Server) -> int:
    return psutil.Process(server.process.pid).num_fds()


def is_idle(client: Client) -> bool:
    return client.metric("refloat_running") == client.metric("refloat_waiting") == 0


def test_frozen_relay_under_twice_the_slots_holds_nobody_up(server: Server) -> None:
    client = server.client()
    before = descriptors(server)
    body = client.chat_body("Loop", model="m", stream=True)  # to the end of the context
    sockets = [frozen(server, "/v1/chat/completions", body) for _ in range(2 * SLOTS)]
    try:
        eventually(lambda: client.metric("refloat_running") == SLOTS, what="the slots to be taken")
        for _ in range(3):
            assert client.chat("Hi", model="m", max_tokens=4).status == 200
        eventually(lambda: is_idle(client), what="all frozen streams to be cut")
        assert client.metric("refloat_aborted_total") == 2 * SLOTS
        eventually(lambda: descriptors(server) <= before, what="the connections to be closed")
        eventually(lambda: client.metric("refloat_held_bytes") == 0, what="the bytes to be free")
    finally:
        for sock in sockets:
            sock.close()


def test_whole_answer_that_nobody_takes_is_let_go(server: Server) -> None:
    before = descriptors(server)
    body = {"model": "m", "prompt": "x" * 500_000}
    sock = frozen(server, "/v1/tokenize", body)
    try:
        eventually(lambda: descriptors(server) > before, what="the connection")
        eventually(lambda: descriptors(server) <= before, what="the connection to be cut")
        assert server.events("slow_readers_cut")
        assert server.client().chat("Hi", model="m", max_tokens=4).status == 200
    finally:
        sock.close()
