"""Keys, and addresses that a request must not make the server call."""

import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from refloat.testing.client import Answer
from refloat.testing.harness import Server, ServerEndedError

pytestmark = pytest.mark.process

CHAT = "/v1/chat/completions"
KEY = "sk-one.two/three="
ErrorOf = Callable[[Answer], dict[str, Any]]
StartServer = Callable[..., Server]


@pytest.fixture(scope="module")
def locked_server(
    start_server: StartServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    """One key, with the newline that editors and `echo` leave behind it."""
    file = tmp_path_factory.mktemp("keys") / "keys"
    file.write_text(f"\n{KEY}\r\n\n")
    config = {
        "models": [{"model": "scripted", "name": "m"}],
        "server": {"api_key_file": str(file)},
    }
    with start_server(config=config) as server:
        yield server


@pytest.fixture
def locked(locked_server: Server) -> Iterator[Server]:
    yield locked_server
    client = locked_server.client(api_key=KEY)
    assert client.chat("Hi", model="m").status == 200


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
        f"Bearer {KEY}x",
        f"Bearer {KEY[:-1]}",
        f"Basic {KEY}",
        KEY,
        "Bearer \xe9",
    ],
)
def test_wrong_or_missing_key_is_a_401(
    locked: Server, error_of: ErrorOf, header: str | None
) -> None:
    client = locked.client()
    headers = {} if header is None else {"Authorization": header}
    for method, path in (("POST", CHAT), ("GET", "/v1/models"), ("GET", "/metrics")):
        body = BODY if method == "POST" else None
        answer = client.request(method, path, body, headers)
        assert answer.status == 401
        assert error_of(answer)["code"] == "invalid_api_key"
    assert KEY not in locked.log_text(last=10_000)


@pytest.mark.case(135)
@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER"])
def test_right_key_opens_whatever_the_case_of_its_scheme(locked: Server, scheme: str) -> None:
    answer = locked.client().post(CHAT, BODY, Authorization=f"{scheme} {KEY}")
    assert answer.status == 200


@pytest.mark.case(135)
def test_probes_need_no_key(locked: Server) -> None:
    client = locked.client()
    assert client.get("/v2/health/live").status == 200
    assert client.get("/v2/health/ready").status == 200


@pytest.mark.case(135)
def test_without_keys_every_header_is_welcome(scripted: Server) -> None:
    client = scripted.client(api_key="whatever")
    assert client.chat("Hi", model="plain").status == 200


@pytest.mark.case(135)
@pytest.mark.parametrize("content", ["", "\n\n"])
def test_key_file_without_a_key_keeps_the_server_from_starting(
    start_server: StartServer, scripted: Server, tmp_path: Path, content: str
) -> None:
    file = tmp_path / "keys"
    file.write_text(content)
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
