"""Bodies of the largest size from many clients at once: the gateway stays within its memory budget."""

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psutil
import pytest

from refloat.testing.client import Client
from refloat.testing.harness import Server
from refloat.testing.patience import eventually

pytestmark = [pytest.mark.process, pytest.mark.timeout(180)]

MIB = 1 << 20
BODY_BYTES = MIB // 4
BUDGET_BYTES = 24 * MIB
CLIENTS = 24
CHAT = "/v1/chat/completions"


def chat(**fields: Any) -> dict[str, Any]:
    return {"model": "m", "messages": [{"role": "user", "content": "Hi"}], **fields}


def bodies() -> list[bytes]:
    """Text, text that takes four bytes a character, and objects that take twenty times their text."""
    text = chat(messages=[{"role": "user", "content": "x" * (BODY_BYTES - 200)}])
    wide = chat(messages=[{"role": "user", "content": "x" * (BODY_BYTES - 400) + "🚲"}])
    bomb = chat(chat_template_kwargs={"a": "BOMB"})
    empty = "[" + "{}," * ((BODY_BYTES - 300) // 3) + "{}]"
    return [
        json.dumps(text).encode(),
        json.dumps(wide, ensure_ascii=False).encode(),
        json.dumps(bomb).replace('"BOMB"', empty).encode(),
    ]


class Peak:
    """The most memory that a process was seen to hold of its own."""

    def __init__(self, pid: int) -> None:
        self._process = psutil.Process(pid)
        self._over = threading.Event()
        self.bytes = self.now = self._process.memory_info().rss
        self._thread = threading.Thread(target=self._look, daemon=True)

    def __enter__(self) -> "Peak":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._over.wait(0.02):
            self.now = self._process.memory_info().rss
            self.bytes = max(self.bytes, self.now)


def test_memory_bomb_of_bodies_stays_within_the_budget(tmp_path: Path) -> None:
    model: dict[str, Any] = {"model": "scripted", "name": "m", "max_num_seqs": 1}
    model |= {"context_length": MIB, "num_kv_blocks": MIB // 16}
    config = {
        "models": [{**model, "engine_options": {"step_s": 0.2}}],
        "server": {"memory_budget_bytes": BUDGET_BYTES, "max_body_bytes": BODY_BYTES},
    }
    env = {"REFLOAT_HOME": str(tmp_path)}
    with Server.start(config=config, env=env, log_level="info") as server:
        client = server.client()
        assert client.chat("Hi", model="m", max_tokens=2).status == 200
        before = psutil.Process(server.process.pid).memory_info().rss

        impatient = Client(server.url, timeout_s=4)

        def send(data: bytes) -> int:
            try:
                return impatient.post(CHAT, data).status
            except OSError:  # left, as clients do
                return 0

        with Peak(server.process.pid) as peak, ThreadPoolExecutor(CLIENTS) as pool:
            statuses = list(pool.map(send, bodies() * (CLIENTS // 3)))
        assert set(statuses) <= {0, 200, 400, 429, 503}
        assert {0, 503} <= set(statuses), "nothing was queued or refused, so nothing was shown"
        # Beside the budget: what is being decoded at the moment, and what the allocator keeps.
        assert peak.bytes - before < 1.5 * BUDGET_BYTES + 32 * MIB
        eventually(lambda: client.metric("refloat_held_bytes") == 0, what="all bytes to be back")
        assert client.chat("Hi", model="m", max_tokens=2).status == 200
