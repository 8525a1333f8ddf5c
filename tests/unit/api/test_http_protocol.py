"""Below ASGI: broken HTTP, huge headers, slow headers, pipelines. Raw sockets only."""

import asyncio
import json
import resource
import socket
import struct
from typing import Any
from unittest.mock import MagicMock

import pytest

from refloat.api import protocol
from refloat.api.connection_limit import most_connections
from refloat.api.unchunked import Unchunked
from refloat.generation.events import Delta
from refloat.testing.client import Client
from refloat.testing.patience import eventually

DEADLINE_S = 20.0
GET = b"GET /v2/health/live HTTP/1.1\r\nHost: x\r\n"


def talk(gateway: Any, *pieces: bytes) -> bytes:
    """Send, then read to the connection's end (the server's RST counts as one)."""
    received = b""
    with socket.create_connection(("127.0.0.1", gateway.port), timeout=DEADLINE_S) as sock:
        try:
            for piece in pieces:
                sock.sendall(piece)
        except (BrokenPipeError, ConnectionResetError):
            pass  # it has said its word already
        try:
            while chunk := sock.recv(65536):
                received += chunk
        except ConnectionResetError:
            pass
    return received


def split(answer: bytes) -> tuple[int, dict[str, str], Any]:
    head, _, body = answer.partition(b"\r\n\r\n")
    status_line, *lines = head.decode().split("\r\n")
    headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in lines)}
    return int(status_line.split()[1]), headers, json.loads(body)


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"NONSENSE\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x00" * 64,
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET /\x00 HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET / HTTP/1.1\r\nNo colon here\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: x\r\n\r\n",
        b"POST / HTTP/1.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"POST / HTTP/1.1\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello!",
        b"CONNECT host:1 HTTP/1.1\r\nHost: x\r\n\r\n",
    ],
    ids=range(10),
)
def test_broken_http_is_400_in_json(gateway: Any, request_bytes: bytes) -> None:
    before = gateway.count("refloat_requests_total", route="protocol", code="400")
    status, headers, body = split(talk(gateway, request_bytes))
    assert status == 400
    assert headers["content-type"] == "application/json"
    assert headers["connection"] == "close"
    assert set(body["error"]) == {"message", "type", "param", "code"}
    assert gateway.count("refloat_requests_total", route="protocol", code="400") == before + 1
    assert Client(gateway.url).get("/v2/health/live").status == 200


@pytest.mark.parametrize(
    "pieces",
    [
        (GET + b"X-Big: " + b"a" * (1 << 20) + b"\r\n\r\n",),
        (GET + b"X-Big: ", *[b"a" * 4096] * 64),
        (GET + b"".join(b"X-%d: %s\r\n" % (i, b"a" * 100) for i in range(2000)) + b"\r\n",),
        (b"GET /" + b"a" * (1 << 18) + b" HTTP/1.1\r\nHost: x\r\n\r\n",),
    ],
    ids=["one header", "a header without end", "many headers", "the path"],
)
def test_oversized_head_is_431_in_json(gateway: Any, pieces: tuple[bytes, ...]) -> None:
    before = gateway.count("refloat_requests_total", route="protocol", code="431")
    received = talk(gateway, *pieces)
    if received:  # a reset may overtake the answer where the client goes on sending
        status, _, body = split(received)
        assert (status, body["error"]["code"]) == (431, "headers_too_large")
    assert gateway.count("refloat_requests_total", route="protocol", code="431") == before + 1
    assert Client(gateway.url).get("/v2/health/live").status == 200


def test_head_within_the_limit_is_served(gateway: Any) -> None:
    answer = talk(gateway, GET + b"X-Big: " + b"a" * 60_000 + b"\r\nConnection: close\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 200")


def test_broken_chunk_ends_the_request_it_belongs_to(gateway: Any) -> None:
    head = (
        b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
        b"Transfer-Encoding: chunked\r\n\r\n"
    )
    status, _, body = split(talk(gateway, head + b'5\r\n{"mod\r\n', b"ZZZ\r\nrubbish\r\n"))
    assert status == 400
    assert body["error"]["type"] == "invalid_request_error"
    gateway.settle()
    assert gateway.budget.held_bytes == 0
    assert not gateway.generations.sessions


def test_endless_chunk_extension_is_cut_off(gateway: Any) -> None:
    head = (
        b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
        b"Transfer-Encoding: chunked\r\n\r\n"
    )
    received = talk(gateway, head + b"5;", *[b"x=" + b"a" * 8190 for _ in range(40)])
    assert not received or received.startswith(b"HTTP/1.1 400")
    assert Client(gateway.url).get("/v2/health/live").status == 200
    gateway.settle()
    assert gateway.budget.held_bytes == 0


def test_rubbish_behind_a_running_stream_breaks_the_connection_alone(gateway: Any) -> None:
    gateway.generations.says([Delta(0, "a")])
    data = b'{"model": "m", "stream": true, "messages": [{"role": "user", "content": "x"}]}'
    head = b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n"
    with socket.create_connection(("127.0.0.1", gateway.port), timeout=DEADLINE_S) as sock:
        sock.sendall(head % len(data) + data)
        received = sock.recv(65536)
        sock.sendall(b"\x00rubbish\r\n\r\n")
        while chunk := sock.recv(65536):
            received += chunk
    assert received.count(b"HTTP/1.1 ") == 1  # no second answer in the middle of the first
    assert b"[DONE]" not in received
    assert gateway.generations.last.ended.wait(DEADLINE_S)


@pytest.mark.parametrize("length", [True, False], ids=["an answer", "a stream"])
def test_http_1_0_gets_an_answer_without_chunks(gateway: Any, length: bool) -> None:
    stream = b"false" if length else b"true"
    data = b'{"model": "m", "messages": [{"role": "user", "content": "x"}], "stream": %s}' % stream
    head = b"POST /v1/chat/completions HTTP/1.0\r\nContent-Length: %d\r\n\r\n" % len(data)
    head, _, body = talk(gateway, head + data).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200")
    assert b"transfer-encoding" not in head.lower()
    assert (b"content-length" in head.lower()) is length
    if length:
        assert json.loads(body)["choices"]
    else:
        assert body.startswith(b"data: {")
        assert body.endswith(b"data: [DONE]\n\n")


def test_http_1_0_stream_that_breaks_does_not_end_like_a_whole_one() -> None:
    async def breaks(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        raise ValueError

    async def nothing(message: Any = None) -> Any:
        """Neither sends nor receives."""

    cycle = MagicMock(response_complete=False)
    with pytest.raises(ValueError):
        asyncio.run(Unchunked(breaks, cycle)({}, nothing, nothing))
    cycle.transport.abort.assert_called_once()


def test_slow_head_is_cut_off(monkeypatch: pytest.MonkeyPatch, gateway: Any) -> None:
    monkeypatch.setattr(protocol, "HEAD_DEADLINE_S", 0.05)
    status, _, _ = split(talk(gateway, b"GET / HTTP/1.1\r\nHo"))
    assert status == 400
    assert talk(gateway) == b""  # a connection that says nothing is closed without a word


def test_slow_head_on_a_used_connection_is_cut_off(
    monkeypatch: pytest.MonkeyPatch, gateway: Any
) -> None:
    monkeypatch.setattr(protocol, "HEAD_DEADLINE_S", 0.05)
    received = talk(gateway, GET + b"\r\n" + b"GET / HT")
    assert received.startswith(b"HTTP/1.1 200")
    assert b"HTTP/1.1 400" in received


def test_pipelined_requests_are_answered_in_order(gateway: Any) -> None:
    second = b"GET /v2/models/m HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    received = talk(gateway, GET + b"\r\n" + second)
    assert received.count(b"HTTP/1.1 200") == 2
    assert received.index(b'"live"') < received.index(b'"name"')


def test_offered_upgrade_is_passed_over(gateway: Any) -> None:
    data = b'{"model": "m", "messages": [{"role": "user", "content": "x"}]}'
    head = (
        b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nConnection: Upgrade, HTTP2-Settings\r\n"
        b"Upgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\nContent-Length: %d\r\n\r\n"
    )
    with socket.create_connection(("127.0.0.1", gateway.port), timeout=DEADLINE_S) as sock:
        sock.sendall(head % len(data) + data)
        assert sock.recv(65536).startswith(b"HTTP/1.1 200")


def test_server_does_not_name_its_software(gateway: Any) -> None:
    headers = Client(gateway.url).get("/v2/health/live").headers
    assert "server" not in headers
    assert headers["date"]


def test_client_that_pipelines_and_leaves_takes_all_with_it(gateway: Any) -> None:
    gateway.generations.says([Delta(0, "a")])
    data = b'{"model": "m", "stream": true, "messages": [{"role": "user", "content": "x"}]}'
    head = b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n"
    with socket.create_connection(("127.0.0.1", gateway.port), timeout=DEADLINE_S) as sock:
        sock.sendall(head % len(data) + data + GET + b"\r\n")
        assert sock.recv(65536)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    assert gateway.generations.last.ended.wait(DEADLINE_S)
    gateway.settle()


@pytest.mark.parametrize(
    "rest",
    [b"\r\n", b"x"],
    ids=["an empty line", "a body that nobody reads"],
)
def test_used_connection_on_which_no_request_begins_is_closed(
    monkeypatch: pytest.MonkeyPatch, gateway: Any, rest: bytes
) -> None:
    monkeypatch.setattr(gateway.server.config, "timeout_keep_alive", 0.2)
    request = GET + b"\r\n" if rest.isspace() else b"POST /no HTTP/1.1\r\nContent-Length: 9\r\n\r\n"
    with socket.create_connection(("127.0.0.1", gateway.port), timeout=DEADLINE_S) as sock:
        sock.sendall(request)
        assert sock.recv(65536).startswith(b"HTTP/1.1 ")
        sock.sendall(rest)
        while sock.recv(65536):
            pass


def test_connections_beyond_the_limit_are_refused_and_taken_again(
    monkeypatch: pytest.MonkeyPatch, gateway: Any
) -> None:
    standing = len(gateway.server.server_state.connections)
    monkeypatch.setattr(gateway.server.config.http_protocol_class, "max_connections", standing + 1)
    with socket.create_connection(("127.0.0.1", gateway.port), timeout=DEADLINE_S) as sock:
        sock.sendall(GET + b"\r\n")
        assert sock.recv(65536).startswith(b"HTTP/1.1 200")
        status, headers, body = split(talk(gateway))
        assert (status, body["error"]["code"]) == (503, "overloaded")
        assert int(headers["retry-after"]) >= 1
        sock.sendall(GET + b"\r\n")  # who was there first is served on
        assert sock.recv(65536).startswith(b"HTTP/1.1 200")
    eventually(
        lambda: talk(gateway, GET + b"Connection: close\r\n\r\n").startswith(b"HTTP/1.1 200"),
        what="a place that is free again",
    )


@pytest.mark.parametrize(
    ("soft", "expected"), [(1024, 768), (100, 50), (1, 1), (resource.RLIM_INFINITY, 65_280)]
)
def test_descriptors_are_left_for_everything_else(
    monkeypatch: pytest.MonkeyPatch, soft: int, expected: int
) -> None:
    def limits(_which: int) -> tuple[int, int]:
        return soft, soft

    monkeypatch.setattr(resource, "getrlimit", limits)
    assert most_connections() == expected
