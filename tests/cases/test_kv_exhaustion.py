"""More demand than the KV cache holds: everybody waits their turn, and the worker lives."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import psutil
import pytest

from refloat.testing.harness import Server

#: As long as these answers are, they come one after another: on a busy machine that takes its time.
pytestmark = [pytest.mark.process, pytest.mark.timeout(300)]


def overload(server: Server, model: str, clients: int) -> Iterator[int]:
    """Answers to requests of which each is as long as the cache: by how much each is too long."""
    client = server.client(timeout_s=240)
    limit = client.get(f"/v1/models/{model}").json()["max_model_len"]
    pid = server.worker_pid(model)

    def one(_: int) -> int:
        answer = client.chat("Hi", model=model, max_tokens=limit - 60, ignore_eos=True)
        assert answer.status == 200, answer.body
        return answer.json()["usage"]["completion_tokens"]

    with ThreadPoolExecutor(clients) as pool:
        for tokens in pool.map(one, range(clients)):
            yield tokens - (limit - 60)
    assert server.worker_pid(model) == pid


@pytest.mark.case(34)
def test_twice_the_seats_near_the_cache_limit_are_all_answered(scripted: Server) -> None:
    assert set(overload(scripted, "small", 8)) == {0}


@pytest.mark.engine
@pytest.mark.case(34)
def test_twice_the_seats_near_a_real_cache_limit_are_all_answered(engine: Server) -> None:
    assert set(overload(engine, "tiny-llm", 4)) == {0}


def grown_bytes(server: Server, model: str, count: int) -> int:
    """By how much a worker grows over so many distinct prompts at concurrency 4, once warm."""
    client = server.client(timeout_s=240)
    worker = psutil.Process(server.worker_pid(model))

    def one(number: int) -> int:
        prompt = [(number * 31 + position * 7) % 900 + 50 for position in range(200)]
        body = {"model": model, "prompt": prompt, "max_tokens": 16, "ignore_eos": True}
        return client.post("/v1/completions", body).status

    with ThreadPoolExecutor(4) as pool:
        assert set(pool.map(one, range(40))) == {200}
        warm = worker.memory_info().rss
        assert set(pool.map(one, range(40, 40 + count))) == {200}
    return worker.memory_info().rss - warm


@pytest.mark.engine
@pytest.mark.case(32)
def test_real_cache_of_a_set_size_does_not_grow(engine: Server) -> None:
    assert grown_bytes(engine, "tiny-llm", 100) < 32 * 2**20


@pytest.mark.soak
@pytest.mark.engine
@pytest.mark.case(32)
def test_real_cache_of_a_set_size_does_not_grow_over_thousands(engine: Server) -> None:
    assert grown_bytes(engine, "tiny-llm", 3_000) < 32 * 2**20
