"""An operator's order to drain is as good as SIGTERM, and both together are no more than one."""

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from refloat.testing.client import Client
from refloat.testing.harness import Server
from refloat.testing.patience import eventually

pytestmark = pytest.mark.process

MODEL = {"model": "scripted", "name": "m", "engine_options": {"step_s": 0.02}}
CHAT = "/v1/chat/completions"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    config = {"models": [MODEL], "server": {"reconnect_window_s": 20}}
    with Server.start(config=config, env={"REFLOAT_HOME": str(tmp_path)}) as started:
        yield started


def body(client: Client, text: str, **fields: Any) -> dict[str, Any]:
    return client.chat_body(text, model="m", max_tokens=2000, stream=True, **fields)


def test_order_to_drain_finishes_what_runs_and_ends_the_server(server: Server) -> None:
    client = server.client()
    with (
        client.stream(CHAT, body(client, "Count from 1 to 40")) as stream,
        client.stream(CHAT, body(client, "Count from 1 to 35")) as left,
    ):
        next(left.data())
        next(stream.data())
        left.close()
        for _ in range(2):  # twice is once
            assert client.post("/admin/drain", None).status == 202
        eventually(lambda: client.get("/v2/health/ready").status == 503, what="not to be ready")
        refused = client.chat("Hi", model="m")
        assert (refused.status, refused.json()["error"]["code"]) == (503, "draining")
        server.process.send_signal(signal.SIGTERM)  # as container hosts do after their own order
        kept = client.get(f"/v1/streams/{left.headers['x-stream-id']}")
        whole = stream.transcript()
    assert kept.body.endswith(b"data: [DONE]\n\n")
    assert whole.finish_reasons() == [(0, "stop")]
    assert whole.text().endswith("39 40")
    assert server.process.wait(timeout=60) == 0


def test_order_to_drain_brings_its_own_deadline(server: Server) -> None:
    client = server.client()
    with client.stream(CHAT, body(client, "Count from 1 to 900")) as stream:
        next(stream.data())
        assert client.post("/admin/drain", {"deadline_s": 0.2}).json()["deadline_s"] == 0.2
        whole = stream.transcript()
    assert whole.error is not None
    assert (whole.error["code"], whole.done) == ("draining", True)
    assert server.process.wait(timeout=60) == 0
