"""Five thousand requests, a third of them aborted at any moment, a third of them invalid: nothing is
left of them, and the last are answered like the first.

What an answer takes is judged by the server's processor time for it, one after another on an idle
server: seconds say more of the machine than of the server, and are only told.
"""

import os
import random
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from statistics import median
from typing import Any, NamedTuple

import psutil
import pytest

from refloat.testing.client import Client
from refloat.testing.harness import Server
from refloat.testing.patience import eventually

pytestmark = [pytest.mark.process, pytest.mark.soak, pytest.mark.timeout(3600)]

COUNT = int(os.environ.get("SOAK_REQUESTS", "5000"))
CLIENTS = 12
#: Enough that the kernel's hundredths of a second of processor time do not matter.
PROBES = 100
MODEL: dict[str, Any] = {
    "model": "scripted",
    "name": "m",
    "num_kv_blocks": 200,
    "max_num_seqs": 8,
    "engine_options": {"step_s": 0.001},
}
INVALID: list[dict[str, Any]] = [
    {"messages": []},
    {"messages": "no list"},
    {"messages": [{"role": "user", "content": "x"}], "temperature": -1},
    {"messages": [{"role": "user", "content": "x"}], "max_tokens": 0},
    {"messages": [{"role": "user", "content": "x"}], "model": "nobody"},
    {"messages": [{"role": "user", "content": "Repeat: " + "long " * 2_000}]},
]


@pytest.fixture
def server() -> Iterator[Server]:
    with Server.start(config={"models": [MODEL]}, log_level="info") as server:
        yield server


def good(client: Client, chance: random.Random) -> float:
    """Seconds until its whole answer."""
    text = "word " * chance.randrange(1, 12)
    began_s = time.monotonic()
    answer = client.chat(f"Repeat: {text}", max_tokens=200)
    assert answer.status == 200, answer.body
    return time.monotonic() - began_s


def aborted(client: Client, chance: random.Random) -> None:
    """Before its answer, or after some events."""
    body = client.chat_body("Repeat: " + "word " * 40, stream=chance.random() < 0.7, max_tokens=300)
    if chance.random() < 0.4:
        connection = client.begin("/v1/chat/completions", body)
        threading.Event().wait(chance.random() / 50)
        connection.close()
        return
    with client.stream("/v1/chat/completions", {**body, "stream": True}) as stream:
        leaves_after = chance.randrange(20)
        for count, _ in enumerate(stream.data()):
            if count == leaves_after:
                return


def invalid(client: Client, chance: random.Random) -> None:
    answer = client.post("/v1/chat/completions", {"model": "m", **chance.choice(INVALID)})
    assert 400 <= answer.status < 500, answer.body


def run(server: Server, first: int, last: int) -> list[float]:
    """Latencies of the good ones."""

    def one(number: int) -> float | None:
        chance, client = random.Random(number), server.client()
        if number % 3 == 0:
            return good(client, chance)
        (aborted if number % 3 == 1 else invalid)(client, chance)
        return None

    with ThreadPoolExecutor(CLIENTS) as pool:
        return [wait for wait in pool.map(one, range(first, last)) if wait is not None]


class Cost(NamedTuple):
    """Of one good request, nobody else being there."""

    seconds: float
    cpu_s: float
    """Gateway, prep and worker together."""


def cost(server: Server) -> Cost:
    """The same questions each time, one after another."""
    gateway = psutil.Process(server.process.pid)
    everybody = [gateway, *gateway.children(recursive=True)]

    def spent() -> float:
        return sum(times.user + times.system for times in (p.cpu_times() for p in everybody))

    client, before = server.client(), spent()
    waits = [good(client, random.Random(number)) for number in range(PROBES)]
    return Cost(median(waits), (spent() - before) / PROBES)


def held(server: Server) -> dict[str, float]:
    """Slots, waiting ones and blocks, once nothing is held any more."""
    client = server.client()
    names = ("running", "waiting", "kv_blocks_used")

    def levels() -> dict[str, float]:
        return {name: client.metric(f"refloat_{name}") for name in names}

    eventually(lambda: not any(levels().values()), what="all to be given back")
    return levels()


def test_five_thousand_requests_leave_nothing_behind(server: Server) -> None:
    gateway = psutil.Process(server.process.pid)
    worker = server.worker_pid("m")
    first = run(server, 0, min(600, COUNT // 4))
    held(server)
    first_cost = cost(server)
    descriptors, memory = gateway.num_fds(), gateway.memory_info().rss
    run(server, min(600, COUNT // 4), COUNT)
    assert not any(held(server).values())
    eventually(lambda: gateway.num_fds() <= descriptors, what="descriptors to be closed")
    grown = gateway.memory_info().rss - memory
    assert grown < 32 * 1024 * 1024, f"{grown} bytes more than after the first requests"
    last = run(server, 0, 60)[-20:]
    held(server)
    last_cost = cost(server)
    assert server.worker_pid("m") == worker
    print(  # noqa: T201 - for docs/SOAK.md
        f"{COUNT} requests; gateway {memory >> 20} MiB, {grown >> 10} KiB more at the end; "
        f"{descriptors} descriptors\n"
        f"{CLIENTS} clients, the first minute, then the last 20: {told(median(first), median(last))}\n"
        f"one after another on the idle server, after the first minute, then at the end: "
        f"{told(first_cost.seconds, last_cost.seconds)}; "
        f"processor time {told(first_cost.cpu_s, last_cost.cpu_s)}"
    )
    assert last_cost.cpu_s <= 1.5 * first_cost.cpu_s


def told(first_s: float, last_s: float) -> str:
    return f"{first_s * 1e3:.1f} ms, then {last_s * 1e3:.1f} ms (ratio {last_s / first_s:.2f})"
