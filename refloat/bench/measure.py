"""The measurements: rounds of server and bare engine, interleaved, with distinct prompts each time."""

import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, Self

import psutil

from refloat.bench.load import LoadResult, run_streams
from refloat.bench.paired import Estimate, estimate, paired
from refloat.bench.yardstick import BareEngine
from refloat.testing.harness import Server

_PROMPT_TOKENS = 48
_WORDS = (
    " the of and to in is that it was for on are with as his they at be this from have or by one had"
    " not but what all were when we there can an your which their said if do will each about how up"
    " out them then she many some so these would other into has more her two like him see time could"
    " no make than first been its who now people my made over did down only way find use may water"
    " long little very after words called just where most know"
)
Progress = Callable[[str], None]


class Throughput(NamedTuple):
    """Server ÷ bare engine at one concurrency."""

    streams: int
    ratio: Estimate
    """Tokens per second through HTTP ÷ tokens per second of the bare loop."""
    server_tokens_per_s: Estimate
    bare_tokens_per_s: Estimate
    client_cpu_share: float
    """CPU seconds of the load client ÷ wall seconds: part of what the ratio lost."""
    gateway_cpu_us_per_token: float


class FirstToken(NamedTuple):
    """What the server adds to the time to first token when idle."""

    added_s: Estimate
    server_s: Estimate
    bare_s: Estimate


class TokenCost(NamedTuple):
    """CPU that the gateway spends on one streamed token, on the scripted engine."""

    streams: int
    cost_us: Estimate
    tokens: int


class Prompts:
    """Prompts nobody has seen: a prefix cache must not help either side.

    They are of whole words. A model that is given scraps of bytes answers with such, and a first
    token that is no character yet brings no event, so that its time could not be measured.
    """

    def __init__(self, words: Sequence[int], seed: int = 1) -> None:
        """`words`: ids that are words of the model's vocabulary."""
        self._words = words
        self._random = random.Random(seed)

    @classmethod
    def for_model(cls, server: Server, model: str, seed: int = 1) -> Self:
        """From the words of that model. Raises `AssertionError` if they cannot be tokenized."""
        answer = server.client().post(
            "/v1/tokenize", {"model": model, "prompt": _WORDS, "add_special_tokens": False}
        )
        assert answer.status == 200, answer.text
        return cls(answer.json()["tokens"], seed)

    def take(self, count: int) -> list[list[int]]:
        """`count` random prompts."""
        return [self._random.choices(self._words, k=_PROMPT_TOKENS) for _ in range(count)]


def serve(server: Server, model: str, prompts: list[list[int]], max_tokens: int) -> LoadResult:
    """One round through HTTP. Raises `LoadError` if a stream was short."""
    bodies: list[dict[str, Any]] = [
        {
            "model": model,
            "prompt": prompt,
            "max_tokens": max_tokens,
            "temperature": 0,
            "ignore_eos": True,
        }
        for prompt in prompts
    ]
    result = run_streams(server.url, bodies)
    if result.tokens != max_tokens * len(prompts):
        raise AssertionError(f"{result.tokens} tokens for {len(prompts)} x {max_tokens} asked")
    return result


def throughput(
    server: Server,
    model: str,
    bare: BareEngine,
    prompts: Prompts,
    *,
    streams: int,
    tokens: int,
    rounds: int,
    progress: Progress,
) -> Throughput:
    """Interleaved rounds, the order changing each time, after one round of each for warmth."""
    served: list[float] = []
    bared: list[float] = []
    client_cpu_s = wall_s = gateway_cpu_s = 0.0
    gateway = psutil.Process(server.process.pid)
    for round_number in range(-1, rounds):
        for side in _alternate(round_number):
            if side == "bare":
                result = bare.run(prompts.take(streams), tokens)
                if round_number >= 0:
                    bared.append(result.tokens / result.wall_s)
                continue
            before_s = _cpu_s(gateway)
            load = serve(server, model, prompts.take(streams), tokens)
            if round_number >= 0:
                served.append(load.tokens / load.wall_s)
                client_cpu_s += load.client_cpu_s
                wall_s += load.wall_s
                gateway_cpu_s += _cpu_s(gateway) - before_s
        progress(f"{streams} streams, round {round_number + 1} of {rounds}")
    return Throughput(
        streams,
        paired(served, bared, lambda s, b: s / b),
        estimate(served),
        estimate(bared),
        client_cpu_s / wall_s,
        gateway_cpu_s / (rounds * streams * tokens) * 1e6,
    )


def first_token(
    server: Server,
    model: str,
    bare: BareEngine,
    prompts: Prompts,
    *,
    rounds: int,
    progress: Progress,
) -> FirstToken:
    """One request at a time on an idle server: send → first text, against add → first token."""
    served: list[float] = []
    bared: list[float] = []
    for round_number in range(-1, rounds):
        for side in _alternate(round_number):
            if side == "bare":
                value_s = bare.run(prompts.take(1), 2).ttft_s
                target = bared
            else:
                value_s = serve(server, model, prompts.take(1), 2).ttft_s[0]
                target = served
            if round_number >= 0:
                target.append(value_s)
        progress(f"first token, round {round_number + 1} of {rounds}")
    return FirstToken(paired(served, bared, lambda s, b: s - b), estimate(served), estimate(bared))


def token_cost(
    server: Server, model: str, *, streams: int, tokens: int, rounds: int, progress: Progress
) -> TokenCost:
    """CPU time of the gateway process ÷ tokens streamed, with an engine that costs it nothing."""
    gateway = psutil.Process(server.process.pid)
    prompts = Prompts.for_model(server, model, seed=2)
    costs: list[float] = []
    for round_number in range(-1, rounds):
        before_s = _cpu_s(gateway)
        serve(server, model, prompts.take(streams), tokens)
        if round_number >= 0:
            costs.append((_cpu_s(gateway) - before_s) / (streams * tokens) * 1e6)
        progress(f"cost per token, round {round_number + 1} of {rounds}")
    return TokenCost(streams, estimate(costs), streams * tokens * rounds)


def resident_bytes(server: Server) -> dict[str, int]:
    """RSS of the gateway, and of all children of one name together, by that name."""
    sizes = {"gateway": psutil.Process(server.process.pid).memory_info().rss}
    for child in server.children():
        sizes[child.name()] = sizes.get(child.name(), 0) + child.memory_info().rss
    return sizes


def _alternate(round_number: int) -> Iterator[str]:
    yield from ("bare", "server") if round_number % 2 else ("server", "bare")


def _cpu_s(process: psutil.Process) -> float:
    times = process.cpu_times()
    return times.user + times.system
