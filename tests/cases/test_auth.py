"""Keys, and addresses that a request must not make the server call."""

import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from refloat.testing.client import Answer
from refloat.testing.harness import Server, ServerEndedError

pytestmark = pytest.mark.process

CHAT = "/v1/chat/completions"
ErrorOf = Callable[[Answer], dict[str, Any]]
StartServer = Callable[..., Server]


BODY = {"model": "m", "messages": [{"role": "user", "content": "Hi"}]}


@pytest.mark.case(135)
@pytest.mark.parametrize(
    "header",
    [
        None,
        "",
        "Bearer",
        "Bearer ",
        "Bearer wrong",
        "Bearer {key}x",
        "Bearer x{key}",
        "Basic {key}",
        "{key}",
        "Bearer \xe9",
    ],
)
def test_wrong_or_missing_key_is_a_401(
    guarded: Server, error_of: ErrorOf, api_key: str, header: str | None
) -> None:
    client = guarded.client()
    headers = {} if header is None else {"Authorization": header.replace("{key}", api_key)}
    for method, path in (("POST", CHAT), ("GET", "/v1/models"), ("GET", "/metrics")):
        body = BODY if method == "POST" else None
        answer = client.request(method, path, body, headers)
        assert answer.status == 401
        assert error_of(answer)["code"] == "invalid_api_key"
    assert api_key not in guarded.log_text(last=10_000)


@pytest.mark.case(135)
@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER"])
def test_right_key_opens_whatever_the_case_of_its_scheme(
    guarded: Server, api_key: str, scheme: str
) -> None:
    answer = guarded.client().post(CHAT, BODY, Authorization=f"{scheme} {api_key}")
    assert answer.status == 200


@pytest.mark.case(135)
def test_probes_need_no_key(guarded: Server) -> None:
    client = guarded.client()
    assert client.get("/v2/health/live").status == 200
    assert client.get("/v2/health/ready").status == 200


@pytest.mark.case(135)
def test_without_keys_every_header_is_welcome(scripted: Server) -> None:
    client = scripted.client(api_key="whatever")
    assert client.chat("Hi", model="plain").status == 200


@pytest.mark.case(135)
def test_key_file_without_a_key_keeps_the_server_from_starting(
    start_server: StartServer, tmp_path: Path
) -> None:
    file = tmp_path / "keys"
    file.write_text("\n\n")
    with pytest.raises(ServerEndedError, match="exit code 2"):
        start_server(arguments=["scripted", "--api-key-file", str(file)])


@pytest.mark.case(137)
def test_image_urls_are_refused_and_never_fetched(scripted: Server, error_of: ErrorOf) -> None:
    client = scripted.client()
    with socket.create_server(("127.0.0.1", 0)) as bait:
        bait.setblocking(False)
        port = bait.getsockname()[1]
        for url in (
            f"http://127.0.0.1:{port}/x.png",
            f"http://localhost:{port}/redirect",
            "http://169.254.169.254/latest/meta-data/",
            "file:///etc/hostname",
            "data:image/png;base64,iVBORw0KGgo=",
        ):
            parts = [
                {"type": "text", "text": "Look"},
                {"type": "image_url", "image_url": {"url": url}},
            ]
            messages = [{"role": "user", "content": parts}]
            answer = client.post(CHAT, {"model": "plain", "messages": messages})
            assert answer.status == 400
            assert error_of(answer)["param"] == "messages[0].content[1]"
        with pytest.raises(BlockingIOError):
            bait.accept()
