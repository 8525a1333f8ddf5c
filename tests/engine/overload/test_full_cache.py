"""Ten times more work than a real engine's cache holds: every answer is whole and what it would have
been alone; nobody is hurt by a neighbour's cancel; and no block is left behind.
"""

import os
import random
import threading
from collections.abc import Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from refloat.testing.client import Client
from refloat.testing.exact import EXACT_PROPERTIES
from refloat.testing.harness import Server
from refloat.testing.patience import eventually

pytestmark = [pytest.mark.engine, pytest.mark.process, pytest.mark.timeout(240)]

DATA = Path(__file__).parents[2] / "data"
PATIENCE_S = 600
#: Blocks of 32 tokens.
TIGHT, LOOSE = 20, 60
MODELS: list[dict[str, Any]] = [
    {
        "model": str(DATA / "tiny-llm"),
        "name": f"{blocks}-{'cached' if caching else 'plain'}",
        "plugin_config": EXACT_PROPERTIES,
        "num_kv_blocks": blocks,
        "max_num_seqs": 16,
        "max_num_batched_tokens": 64,
        "enable_prefix_caching": caching,
    }
    for blocks in (TIGHT, LOOSE)
    for caching in (True, False)
] + [
    {
        "model": str(DATA / "tiny-hybrid"),
        "name": "hybrid",
        "num_kv_blocks": TIGHT,
        "max_num_batched_tokens": 64,
    },
]
NAMES = [model["name"] for model in MODELS if model["name"].endswith(("cached", "plain"))]
#: Of which the short versions are, so that fewer models have to be loaded.
SHORT = [f"{TIGHT}-cached", f"{LOOSE}-plain"]
#: Says what an answer is when nobody else is there, once its own storm is over.
ALONE = f"{LOOSE}-plain"
#: In the long versions, of each model. At once they ask for ten times what the larger cache holds.
STORMS, ASKS, THREADS = int(os.environ.get("SOAK_ROUNDS", "20")), 120, 84
#: Of the default model, which is slow: tokens of a request, and requests for each block, so that they
#: ask for ten times the cache.
SLOW_TOKENS, SLOW_ASKS = 200, 1.8


def serving(names: Collection[str], home: Path, folder: Path | None = None) -> Server:
    """With these of the models, or another one of the same settings."""
    models = [model for model in MODELS if model["name"] in names]
    if folder is not None:
        models = [{**model, "model": str(folder)} for model in models]
    config = {"models": models, "server": {"ready_when": "all"}}
    return Server.start(config=config, env={"REFLOAT_HOME": str(home)}, log_level="info")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving([*SHORT, "hybrid"], tmp_path_factory.mktemp("home")) as server:
        yield server


class Ask:
    """One request of a storm, and what it has to give."""

    def __init__(self, chance: random.Random, longest: int) -> None:
        family = [chance.randrange(3)] * chance.choice([0, 40, 96])
        own = [100 + chance.randrange(800) for _ in range(chance.choice([1, 5, 64]))]
        self.prompt = [50 + token for token in family] + own
        self.tokens = chance.randrange(20, longest - len(self.prompt))
        self.n = chance.choice([1, 1, 1, 2])
        self.leaves_after = chance.choice([None, None, None, 1, 9])

    def body(self, model: str, **more: Any) -> dict[str, Any]:
        return {
            "model": model,
            "prompt": self.prompt,
            "max_tokens": self.tokens,
            "temperature": 0,
            "ignore_eos": True,
            **more,
        }


def texts(client: Client, ask: Ask, model: str) -> list[str]:
    """Its answers, each whole by its own count."""
    answer = client.post("/v1/completions", ask.body(model, n=ask.n))
    assert answer.status == 200, answer.body
    body = answer.json()
    assert body["usage"]["completion_tokens"] == ask.tokens * ask.n
    assert {choice["finish_reason"] for choice in body["choices"]} == {"length"}
    return [choice["text"] for choice in body["choices"]]


def leave(client: Client, ask: Ask, model: str) -> None:
    """Read some events of a stream, then go."""
    with client.stream("/v1/completions", ask.body(model, stream=True)) as stream:
        for count, _ in enumerate(stream.data()):
            if count == ask.leaves_after:
                return


def storm(server: Server, model: str, asks: list[Ask], threads: int) -> dict[int, list[str]]:
    """Everybody at once, those who leave among them. Answers of the others, by place."""
    begun = threading.Barrier(threads)

    def one(place: int) -> list[str]:
        if place < threads:
            begun.wait(30)
        client, ask = server.client(timeout_s=PATIENCE_S), asks[place]
        if ask.leaves_after is None:
            return texts(client, ask, model)
        leave(client, ask, model)
        return []

    with ThreadPoolExecutor(threads) as pool:
        answers = dict(enumerate(pool.map(one, range(len(asks)))))
    return {place: answer for place, answer in answers.items() if answer}


def expect_short_answers(server: Server, model: str) -> None:
    """What the server then foresees is wrong, so that it has to stop some that it let in."""
    body = {"model": model, "prompt": [7, 8, 9], "max_tokens": 3, "n": 8, "ignore_eos": True}
    assert server.client(timeout_s=PATIENCE_S).post("/v1/completions", body).status == 200


def check(
    server: Server, model: str, count: int, seed: int, *, threads: int = 24, longest: int = 320
) -> None:
    chance = random.Random(f"{model} {seed}")
    asks = [Ask(chance, longest) for _ in range(count)]
    pid = server.worker_pid(model)
    expect_short_answers(server, model)
    answers = storm(server, model, asks, min(threads, count))
    client = server.client(timeout_s=PATIENCE_S)
    for place, answer in answers.items():
        ask = asks[place]
        if model == "hybrid":
            continue
        alone = client.post("/v1/completions", ask.body(ALONE)).json()["choices"][0]["text"]
        assert answer == [alone] * ask.n, (place, ask.prompt, ask.tokens)
    assert server.worker_pid(model) == pid
    eventually(lambda: client.metric("refloat_kv_blocks_used", model=model) == 0)
    assert not server.events("worker_account_wrong")
    assert not server.events("prefix_sharing_not_seen"), "the engine has more than was counted"


def preemptions(server: Server, model: str) -> float:
    """For want of blocks."""
    client = server.client()
    return sum(
        client.metric("refloat_preemptions_total", model=model, why=why)
        for why in ("blocks", "worker")
    )


@pytest.mark.parametrize(("model", "asks"), [(SHORT[0], 28), (SHORT[1], 12)])
def test_full_real_cache_answers_everybody_as_if_alone(
    server: Server, model: str, asks: int
) -> None:
    """Of the smaller cache all at once ask for ten times what it holds."""
    check(server, model, asks, seed=1, threads=asks)


def test_full_real_cache_preempts(server: Server) -> None:
    assert sum(preemptions(server, name) for name in SHORT) > 0


def test_full_cache_of_a_hybrid_answers_everybody(server: Server) -> None:
    check(server, "hybrid", 8, seed=1)


def test_identical_cold_prompts_at_once_are_all_answered_alike(server: Server) -> None:
    body = {
        "model": f"{TIGHT}-cached",
        "prompt": [60 + number % 300 for number in range(161)],
        "max_tokens": 60,
        "temperature": 0,
        "ignore_eos": True,
    }

    def one(_: int) -> str:
        answer = server.client().post("/v1/completions", body)
        assert answer.status == 200, answer.body
        return answer.json()["choices"][0]["text"]

    with ThreadPoolExecutor(8) as pool:
        answers = set(pool.map(one, range(8)))
    assert len(answers) == 1


@pytest.mark.soak
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("model", [*NAMES, "hybrid"])
def test_full_real_cache_for_long_answers_everybody_as_if_alone(tmp_path: Path, model: str) -> None:
    with serving([model, ALONE], tmp_path) as server:
        for seed in range(STORMS):
            check(server, model, ASKS, seed + 2, threads=THREADS)
        assert tell(server, model) or model == "hybrid"


@pytest.mark.soak
@pytest.mark.smollm2
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("model", NAMES)
def test_full_cache_of_the_default_model_answers_everybody_as_if_alone(
    smollm2_folder: Path, tmp_path: Path, model: str
) -> None:
    asks = round(SLOW_ASKS * (TIGHT if model.startswith(f"{TIGHT}-") else LOOSE))
    with serving([model, ALONE], tmp_path, smollm2_folder) as server:
        for seed in range(max(1, STORMS // 10)):
            check(server, model, asks, seed + 2, threads=asks, longest=SLOW_TOKENS)
        tell(server, model)  # one storm of requests this short may be foreseen rightly


def tell(server: Server, model: str) -> float:
    """For docs/SOAK.md. How often somebody was preempted."""
    tokens = server.client().metric("refloat_generated_tokens_total", model=model)
    steps = server.client().metric("refloat_engine_steps_total", model=model)
    stopped = preemptions(server, model)
    print(  # noqa: T201
        f"{model}: {tokens:.0f} tokens in {steps:.0f} steps, {stopped:.0f} preemptions"
    )
    return stopped
