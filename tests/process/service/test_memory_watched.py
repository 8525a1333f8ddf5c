"""Memory limits, through the whole server: a gateway that takes nothing new, a worker replaced."""

from pathlib import Path
from typing import Any

import pytest

from refloat.observe.host_memory import resident_bytes
from refloat.testing.harness import Server
from refloat.testing.patience import eventually

pytestmark = [pytest.mark.process, pytest.mark.timeout(180)]

MIB = 1 << 20
PROMPT_TOKENS = MIB // 2


def start(tmp_path: Path, model: dict[str, Any], **server: Any) -> Server:
    config = {"models": [{"model": "scripted", "name": "m", **model}], "server": server}
    return Server.start(config=config, env={"REFLOAT_HOME": str(tmp_path)}, log_level="info")


def test_gateway_beyond_its_limit_takes_no_bodies_and_says_so(tmp_path: Path) -> None:
    with start(tmp_path, {}, gateway_memory_bytes=MIB) as server:
        client = server.client()
        refused = client.chat("Hi", model="m")
        assert (refused.status, refused.json()["error"]["code"]) == (503, "overloaded")
        assert int(refused.headers["retry-after"]) >= 1
        assert client.get("/v2/health/live").status == 200
        assert len(server.events("new_bodies_refused")) == 1


def test_worker_beyond_its_limit_is_replaced_and_its_answer_goes_on(tmp_path: Path) -> None:
    model: dict[str, Any] = {
        "max_num_batched_tokens": PROMPT_TOKENS // 16,
        "context_length": 2 * PROMPT_TOKENS,
        "num_kv_blocks": PROMPT_TOKENS // 8,
        "engine_options": {"step_s": 0.2},
    }
    with start(tmp_path, model) as server:
        pid = server.worker_pid()
        assert pid is not None
        fresh = resident_bytes(pid)
    with start(tmp_path, {**model, "worker_memory_bytes": fresh + 3 * MIB}) as server:
        client = server.client()
        gauge = "refloat_worker_memory_bytes"
        eventually(lambda: client.metric(gauge, model="m") > 0, what="a first look at the worker")
        body = {"model": "m", "prompt": "x" * PROMPT_TOKENS, "max_tokens": 3, "temperature": 0}
        answer = client.post("/v1/completions", body)
        assert answer.status == 200, (answer.body, server.log_text())
        assert answer.json()["usage"]["completion_tokens"] == 3
        assert len(server.events("worker_replaced_for_memory")) == 1
        assert client.get("/health").json()["models"][0]["restarts"] == {"memory_limit": 1}

        def causes() -> list[str]:
            return [i["cause"] for i in client.get("/admin/incidents").json()["data"]]

        eventually(lambda: causes() == ["memory_limit"], what="the incident to be on record")
