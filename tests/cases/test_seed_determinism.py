"""Chance where it is wanted, and only there."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from refloat.testing.client import Client
from refloat.testing.harness import Server

pytestmark = [pytest.mark.process, pytest.mark.engine]

NO_THINKING = {"chat_template_kwargs": {"enable_thinking": False}}


def digits(client: Client, **fields: Any) -> str:
    """Twenty random digits, in words of the model's own."""
    every = {"model": "tiny-scripted", "temperature": 1, "max_tokens": 60, **NO_THINKING, **fields}
    return client.chat("Write 20 random digits", **every).text


@pytest.mark.case(117)
def test_same_seed_says_the_same_each_time_and_another_something_else(engine: Server) -> None:
    client = engine.client()
    repeated = [digits(client, seed=42) for _ in range(3)]
    assert len(set(repeated)) == 1
    assert len({digits(client, seed=seed) for seed in (42, 43, 44)}) > 1
    # a seed of somebody else in between changes nothing
    assert digits(client, seed=42) == repeated[0]


@pytest.mark.case(119)
def test_requests_without_a_seed_differ(engine: Server) -> None:
    client = engine.client()
    assert len({digits(client) for _ in range(5)}) > 1
    with ThreadPoolExecutor(5) as pool:
        futures = [pool.submit(digits, client) for _ in range(5)]
        assert len({future.result() for future in futures}) > 1


@pytest.mark.case(118)
@pytest.mark.parametrize(("tokens", "prompts"), [(1, 10), (2, 10), (60, 1), (150, 1)])
def test_greedy_repeats_of_a_hybrid_model_equal_the_first(
    engine: Server, tokens: int, prompts: int
) -> None:
    """40 tokens of prompt, that no other test uses, with the prefix cache on."""
    client = engine.client()
    for number in range(prompts):
        first = tokens * 7 + number * 101
        body = {
            "model": "tiny-hybrid",
            "prompt": [(first + position * 13) % 900 + 50 for position in range(40)],
            "max_tokens": tokens,
            "temperature": 0,
            "ignore_eos": True,
        }
        texts = [client.post("/v1/completions", body).text for _ in range(6)]
        assert set(texts) == {texts[0]}
