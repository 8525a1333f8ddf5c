"""Bodies up to the limit are read and judged; beyond it they are refused for their size alone."""

import http.client
import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import urlsplit

import pytest

from refloat.testing.client import Answer
from refloat.testing.harness import Server

pytestmark = pytest.mark.process

CHAT = "/v1/chat/completions"
MIB = 2**20
ErrorOf = Callable[[Answer], dict[str, Any]]


def chat_of(size: int, model: str) -> bytes:
    """A chat body of about so many bytes, most of them a tool's result."""
    call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    messages = [
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "x" * size},
    ]
    return json.dumps({"model": model, "messages": messages}).encode()


def post(server: Server, body: Any, *, chunked: bool, key: str = "") -> Answer:
    """A POST with Content-Length or in chunks."""
    connection = http.client.HTTPConnection(urlsplit(server.url).netloc, timeout=60)
    pieces = (body[start : start + 65536] for start in range(0, len(body), 65536))
    try:
        connection.request(
            "POST",
            CHAT,
            pieces if chunked else body,
            {"Content-Type": "application/json", "Authorization": f"Bearer {key}"},
            encode_chunked=chunked,
        )
        answer = connection.getresponse()
        headers = {name.lower(): value for name, value in answer.getheaders()}
        return Answer(answer.status, headers, answer.read())
    finally:
        connection.close()


@pytest.mark.case(138)
@pytest.mark.parametrize("chunked", [False, True])
@pytest.mark.parametrize("size", [MIB + 1, 4 * MIB])
def test_body_beyond_the_limit_is_a_413_however_it_is_sent(
    guarded: Server, error_of: ErrorOf, api_key: str, chunked: bool, size: int
) -> None:
    answer = post(guarded, chat_of(size, "m"), chunked=chunked, key=api_key)
    assert answer.status == 413
    error = error_of(answer)
    assert error["code"] == "request_too_large"
    assert str(MIB) in error["message"]
    assert answer.headers["connection"] == "close"


@pytest.mark.case(138)
@pytest.mark.parametrize("chunked", [False, True])
@pytest.mark.parametrize("body", [b"[]", b"5", b'"x"', b"null", b"", b"[{}]", b"{}"])
def test_body_that_is_no_object_is_a_400(
    guarded: Server, error_of: ErrorOf, api_key: str, body: bytes, chunked: bool
) -> None:
    answer = post(guarded, body, chunked=chunked, key=api_key)
    assert answer.status == 400
    assert error_of(answer)["type"] == "invalid_request_error"


@pytest.mark.case(139)
@pytest.mark.parametrize(
    ("size", "status", "code"),
    [
        (2 * MIB, 400, "context_length_exceeded"),
        (16 * MIB, 400, "context_length_exceeded"),
        (64 * MIB, 413, "request_too_large"),
    ],
)
def test_large_body_is_judged_by_its_content_and_the_server_stays_responsive(
    scripted: Server, error_of: ErrorOf, size: int, status: int, code: str
) -> None:
    client = scripted.client()
    body = chat_of(size, "plain")
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(post, scripted, body, chunked=False)
        while not future.done():
            assert client.get("/v2/health/live").status == 200
        answer = future.result()
    assert answer.status == status, answer.body
    assert error_of(answer)["code"] == code


@pytest.mark.case(140)
def test_metrics_that_are_switched_off_are_a_404(
    guarded: Server, error_of: ErrorOf, api_key: str
) -> None:
    answer = guarded.client(api_key=api_key).get("/metrics")
    assert answer.status == 404
    assert error_of(answer)["code"] == "not_found"
