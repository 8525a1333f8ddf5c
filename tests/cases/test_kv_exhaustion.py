"""More demand than the KV cache holds: everybody waits their turn, and the worker lives."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from refloat.testing.harness import Server

pytestmark = pytest.mark.process


def overload(server: Server, model: str) -> Iterator[int]:
    """Answers to twice as many requests as the worker has seats, each as long as the cache."""
    client = server.client()
    limit = client.get(f"/v1/models/{model}").json()["max_model_len"]
    pid = server.worker_pid(model)

    def one(_: int) -> int:
        answer = client.chat("Hi", model=model, max_tokens=limit - 60, ignore_eos=True)
        assert answer.status == 200, answer.body
        return answer.json()["usage"]["completion_tokens"]

    with ThreadPoolExecutor(8) as pool:
        for tokens in pool.map(one, range(8)):
            yield tokens - (limit - 60)
    assert server.worker_pid(model) == pid


@pytest.mark.case(34)
def test_twice_the_seats_near_the_cache_limit_are_all_answered(scripted: Server) -> None:
    assert set(overload(scripted, "small")) == {0}


@pytest.mark.engine
@pytest.mark.case(34)
def test_twice_the_seats_near_a_real_cache_limit_are_all_answered(engine: Server) -> None:
    assert set(overload(engine, "tiny-tight")) == {0}
