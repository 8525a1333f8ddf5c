"""Keys, request ids, CORS, metrics, the log line, bodies and their limits."""

import http.client
import json
import socket
from collections.abc import Iterable
from typing import Any

import pytest
import structlog

from refloat.api.auth import KeyRing, tenant_of_address
from refloat.testing.client import Client
from refloat.testing.patience import eventually

DEADLINE_S = 20.0
CHAT = "/v1/chat/completions"
BODY = {"model": "m", "messages": [{"role": "user", "content": "a secret prompt"}]}


def error_of(answer: Any) -> dict[str, Any]:
    error = answer.json()["error"]
    assert set(error) >= {"message", "type", "param", "code"}
    return error


def raw(gateway: Any, head: str, pieces: Iterable[bytes] = ()) -> bytes:
    """Send what no client library would, and read to the connection's end."""
    with socket.create_connection(("127.0.0.1", gateway.port), timeout=DEADLINE_S) as sock:
        sock.sendall(head.replace("\n", "\r\n").encode())
        for piece in pieces:
            sock.sendall(piece)
        received = b""
        while chunk := sock.recv(65536):
            received += chunk
    return received


# --- keys -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("header", "status"),
    [
        (None, 401),
        ("", 401),
        ("Bearer", 401),
        ("Bearer ", 401),
        ("Bearer wrong", 401),
        ("Basic good-key", 401),
        ("good-key", 401),
        ("Bearer good-key", 200),
        ("bearer good-key", 200),
        ("BEARER   good-key ", 200),
        ("Bearer other-key", 200),
    ],
)
def test_key_opens_the_server(gateway_with: Any, header: str | None, status: int) -> None:
    gateway = gateway_with(keys=["good-key\n", "other-key", ""])
    headers = {} if header is None else {"Authorization": header}
    answer = Client(gateway.url).request("GET", "/v1/models", headers=headers)
    assert answer.status == status
    if status == 401:
        error = error_of(answer)
        assert (error["code"], error["type"]) == ("invalid_api_key", "invalid_request_error")
        assert answer.headers["www-authenticate"] == "Bearer"


def test_every_route_but_two_asks_for_the_key(gateway_with: Any) -> None:
    gateway = gateway_with(keys=["k"])
    client = Client(gateway.url)
    for path in ("/v1/models", "/v3/config", "/health", "/metrics", "/openapi.json", "/nowhere"):
        assert client.get(path).status == 401
    assert client.post(CHAT, BODY).status == 401
    assert client.get("/v2/health/live").status == 200
    assert client.get("/v2/health/ready").status == 200
    assert client.get("/v2/models/m").status == 401


def test_keys_stay_out_of_log_and_tenant(gateway_with: Any) -> None:
    gateway = gateway_with(keys=["very-secret-key"])
    with structlog.testing.capture_logs() as lines:
        assert Client(gateway.url, api_key="very-secret-key").post(CHAT, BODY).status == 200
        assert Client(gateway.url, api_key="very-wrong-key").post(CHAT, BODY).status == 401
        gateway.settle()
    assert len(lines) == 2
    assert "very-" not in json.dumps(lines)
    assert "secret prompt" not in json.dumps(lines)
    assert gateway.generations.last.request.tenant.startswith("key-")


def test_ring_without_keys_is_open() -> None:
    assert KeyRing([]).is_open
    assert KeyRing(["", " \n"]).is_open
    ring = KeyRing(["a", "b"])
    assert ring.holder_of(b"a") != ring.holder_of(b"b")
    assert ring.holder_of(b"c") is None
    assert ring.holder_of(b"\xff") is None


@pytest.mark.parametrize(
    ("client", "tenant"),
    [
        (("10.1.2.3", 5), "ip-10.1.2.3"),
        (("2001:db8:1:2:3:4:5:6", 5), "ip-2001:db8:1:2::/64"),
        (("::ffff:10.1.2.3", 5), "ip-10.1.2.3"),
        (None, "local"),
    ],
)
def test_tenant_without_key_is_the_address(client: Any, tenant: str) -> None:
    assert tenant_of_address({"client": client}) == tenant


# --- ids, log, metrics, CORS ----------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/v1/models", "/nowhere", "/v1/models/nope"])
def test_request_id_is_echoed_on_every_answer(gateway: Any, path: str) -> None:
    client = Client(gateway.url)
    answer = client.request("GET", path, headers={"X-Request-Id": "abc-123"})
    assert answer.headers["x-request-id"] == "abc-123"
    first, second = client.get(path), client.get(path)
    assert first.headers["x-request-id"] != second.headers["x-request-id"]


@pytest.mark.parametrize("given", ["a b", "x" * 129, '"quoted"', "<b>", ""])
def test_request_id_that_is_not_sane_is_replaced(gateway: Any, given: str) -> None:
    answer = Client(gateway.url).request("GET", "/v1/models", headers={"X-Request-Id": given})
    assert answer.headers["x-request-id"].startswith("req-")


def test_request_is_one_log_line(gateway: Any) -> None:
    with structlog.testing.capture_logs() as lines:
        answer = Client(gateway.url).post(CHAT, BODY)
        gateway.settle()
    [line] = lines
    assert line["event"] == "request"
    assert (line["method"], line["route"], line["status"]) == ("POST", CHAT, 200)
    assert line["model"] == "m"
    assert line["duration_s"] > 0
    assert answer.status == 200


def test_requests_are_counted_by_route_and_code(gateway_with: Any) -> None:
    gateway = gateway_with()
    client = Client(gateway.url)
    for _ in range(3):
        client.post(CHAT, BODY)
    client.post(CHAT, {**BODY, "n": 0})
    client.get("/v1/models/no/such/model")
    client.get("/wp-admin")
    count = gateway.count
    assert count("refloat_requests_total", route=CHAT, code="200") == 3
    assert count("refloat_requests_total", route=CHAT, code="400") == 1
    template = "/v1/models/{model:path}"
    assert count("refloat_requests_total", route=template, code="404") == 1
    assert count("refloat_requests_total", route="unmatched", code="404") == 1
    assert count("refloat_request_seconds_count", route=CHAT) == 4
    assert count("refloat_request_seconds_sum", route=CHAT) > 0


def test_metrics_can_be_read_and_switched_off(gateway_with: Any) -> None:
    on = Client(gateway_with().url).get("/metrics")
    assert on.status == 200
    assert on.headers["content-type"].startswith("text/plain; version=0.0.4")
    assert b"refloat_requests_total" in on.body
    off = Client(gateway_with(metrics=False).url).get("/metrics")
    assert (off.status, error_of(off)["code"]) == (404, "not_found")


def test_browsers_are_let_in_only_when_configured(gateway: Any, gateway_with: Any) -> None:
    asks = {"Origin": "https://chat.example", "Access-Control-Request-Method": "POST"}
    closed = Client(gateway.url).request("OPTIONS", CHAT, headers=asks)
    assert closed.status == 405
    assert "access-control-allow-origin" not in closed.headers
    opened = Client(
        gateway_with(
            cors_origins=["https://chat.example"],
        ).url
    )
    assert opened.request("OPTIONS", CHAT, headers=asks).status == 200
    refused = opened.request("POST", CHAT, {}, {"Origin": "https://chat.example"})
    assert refused.status == 400
    assert refused.headers["access-control-allow-origin"] == "https://chat.example"


def test_preflight_needs_no_key(gateway_with: Any) -> None:
    gateway = gateway_with(keys=["k"], cors_origins=["https://chat.example"])
    asks = {"Origin": "https://chat.example", "Access-Control-Request-Method": "POST"}
    assert Client(gateway.url).request("OPTIONS", CHAT, headers=asks).status == 200


# --- bodies ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("content_type", ["text/plain", "application/x-www-form-urlencoded", ""])
def test_other_content_type_is_415(gateway: Any, content_type: str) -> None:
    answer = Client(gateway.url).post(CHAT, BODY, Content_Type=content_type)
    assert (answer.status, error_of(answer)["code"]) == (415, "unsupported_media_type")


@pytest.mark.parametrize(
    "content_type", ["application/json; charset=utf-8", "Application/JSON", "application/x+json"]
)
def test_json_by_any_name_is_taken(gateway: Any, content_type: str) -> None:
    assert Client(gateway.url).post(CHAT, BODY, Content_Type=content_type).status == 200


def test_missing_content_type_is_taken(gateway: Any) -> None:
    data = json.dumps(BODY).encode()
    head = f"POST {CHAT} HTTP/1.1\nHost: x\nConnection: close\nContent-Length: {len(data)}\n\n"
    assert raw(gateway, head, [data]).startswith(b"HTTP/1.1 200")


def test_compressed_body_is_415(gateway: Any) -> None:
    answer = Client(gateway.url).post(CHAT, BODY, Content_Encoding="gzip")
    assert answer.status == 415


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'"x"'])
def test_body_that_is_no_object_is_400(gateway: Any, body: bytes) -> None:
    answer = Client(gateway.url).post(CHAT, body)
    assert answer.status == 400
    assert error_of(answer)["type"] == "invalid_request_error"


LIMIT = 64 * 1024


def test_declared_body_over_the_limit_is_413_unread(gateway_with: Any) -> None:
    gateway = gateway_with(max_body_bytes=LIMIT)
    answer = Client(gateway.url).post(CHAT, b" " * (LIMIT * 40))
    assert (answer.status, error_of(answer)["code"]) == (413, "request_too_large")
    assert answer.headers["connection"] == "close"
    gateway.settle()
    assert gateway.budget.held_bytes == 0


def test_client_that_asks_first_need_not_send(gateway_with: Any) -> None:
    gateway = gateway_with(max_body_bytes=LIMIT)
    head = f"POST {CHAT} HTTP/1.1\nHost: x\nExpect: 100-continue\nContent-Length: {LIMIT + 1}\n\n"
    assert raw(gateway, head).startswith(b"HTTP/1.1 413")


def test_chunked_body_over_the_limit_is_413(gateway_with: Any) -> None:
    gateway = gateway_with(max_body_bytes=LIMIT)
    connection = http.client.HTTPConnection("127.0.0.1", gateway.port, timeout=DEADLINE_S)
    pieces = (b"x" * 10_000 for _ in range(200))
    headers = {"Content-Type": "application/json"}
    connection.request("POST", CHAT, pieces, headers, encode_chunked=True)
    answer = connection.getresponse()
    assert answer.status == 413
    assert json.loads(answer.read())["error"]["code"] == "request_too_large"
    connection.close()
    assert Client(gateway.url).post(CHAT, BODY).status == 200
    gateway.settle()
    assert gateway.budget.held_bytes == 0


def test_chunked_body_within_the_limit_is_served(gateway: Any) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", gateway.port, timeout=DEADLINE_S)
    data = json.dumps(BODY).encode()
    pieces = (data[i : i + 7] for i in range(0, len(data), 7))
    headers = {"Content-Type": "application/json"}
    connection.request("POST", CHAT, pieces, headers, encode_chunked=True)
    assert connection.getresponse().status == 200
    connection.close()


def test_large_body_within_the_limit_is_served(gateway: Any) -> None:
    big = {"model": "m", "messages": [{"role": "user", "content": "é" * (8 * 1024 * 1024)}]}
    answer = Client(gateway.url).post(CHAT, json.dumps(big, ensure_ascii=False).encode())
    assert answer.status == 200
    gateway.settle()
    assert gateway.budget.held_bytes == 0


def test_body_beyond_the_budget_is_503(gateway_with: Any) -> None:
    gateway = gateway_with(max_body_bytes=8 * LIMIT, memory_budget_bytes=1024 * 1024)
    with gateway.budget.reserve(1024 * 1024 - 1000):
        answer = Client(gateway.url).post(CHAT, b" " * 2000)
        assert (answer.status, error_of(answer)["code"]) == (503, "overloaded")
        assert int(answer.headers["retry-after"]) >= 1
    assert Client(gateway.url).post(CHAT, BODY).status == 200


def test_body_that_is_only_promised_holds_nothing(gateway_with: Any) -> None:
    gateway = gateway_with(max_body_bytes=1024 * 1024, memory_budget_bytes=1024 * 1024)
    head = f"POST {CHAT} HTTP/1.1\r\nHost: x\r\nContent-Length: {1024 * 1024}\r\n\r\n["
    with socket.create_connection(("127.0.0.1", gateway.port), timeout=DEADLINE_S) as sock:
        sock.sendall(head.encode())
        eventually(lambda: gateway.budget.held_bytes, what="the first byte to be counted")
        assert Client(gateway.url).post(CHAT, BODY).status == 200
    gateway.settle()
    assert gateway.budget.held_bytes == 0
