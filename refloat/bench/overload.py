"""Ten times more clients than the cache holds, against the best fixed number of them, as searched for.

Tokens a second depend on the machine and on whoever else uses it; tokens a step (the sequences that
run at a time) do not. Both are told.
"""

import random
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from refloat.bench.crowd import Crowd, Question
from refloat.bench.measure import Progress
from refloat.bench.paired import Estimate, paired
from refloat.testing.client import Client
from refloat.testing.harness import Server
from refloat.testing.patience import eventually

_TIMES_CAPACITY = 10
#: Numbers of clients that are tried, as shares of how many whole requests the cache holds.
_SHARES = (0.5, 0.75, 1.0, 1.25, 1.5, 2.0, 3.0)
_WARM_STEPS = 120
#: At least; and so many tokens, since in a small cache the few answers of 300 steps scatter by several
#: hundredths.
_STEPS, _TOKENS = 300, 8_000
_DEADLINE_S = 600.0

Questions = Callable[[random.Random], Iterator[Question]]


class Subject(NamedTuple):
    """What is overloaded, and with what."""

    what: str
    model: dict[str, Any]
    questions: Questions
    mean_tokens: int
    """Of a request at its end."""
    cache_tokens: int


class Sample(NamedTuple):
    """What a server did while so many clients were there."""

    tokens_per_s: float
    tokens_per_step: float
    preemptions: float
    """For a thousand tokens."""


class Overload(NamedTuple):
    """One subject."""

    what: str
    crowd: int
    best: int
    """The number of clients, of those tried, with most tokens a second."""
    speed: Estimate
    """Tokens a second with the crowd ÷ with the best of the other rounds, round by round: the best of a
    round itself would be the luckiest, and no number could keep up with it."""
    occupancy: Estimate
    """The same of tokens a step."""
    tokens_per_step: float
    preemptions: float


def overload(subject: Subject, *, rounds: int, progress: Progress) -> Overload:
    """All numbers of clients in turns, in another order each round."""
    capacity = subject.cache_tokens / subject.mean_tokens
    crowd = round(_TIMES_CAPACITY * capacity)
    steps = max(_STEPS, round(_TOKENS / capacity))
    tried = [max(1, round(capacity * share)) for share in _SHARES]
    samples: dict[int, list[Sample]] = {clients: [] for clients in (*tried, crowd)}
    chance = random.Random(5)
    with Server.start(config={"models": [subject.model]}, log_level="info") as server:
        _sample(server, subject.questions(chance), tried[2], _WARM_STEPS)
        for round_number in range(rounds):
            for clients in chance.sample(list(samples), len(samples)):
                sample = _sample(server, subject.questions(chance), clients, steps)
                samples[clients].append(sample)
            progress(f"overload, {subject.what}, round {round_number + 1} of {rounds}")
    fixed = {clients: samples[clients] for clients in tried}
    return Overload(
        subject.what,
        crowd,
        best_number(fixed),
        _ratio(samples[crowd], fixed, lambda sample: sample.tokens_per_s),
        _ratio(samples[crowd], fixed, lambda sample: sample.tokens_per_step),
        statistics.median(sample.tokens_per_step for sample in samples[crowd]),
        statistics.median(sample.preemptions for sample in samples[crowd]),
    )


def _sample(server: Server, questions: Iterator[Question], clients: int, steps: int) -> Sample:
    client = server.client()
    with Crowd(server.url, questions, clients) as crowd:
        _wait_steps(client, crowd, _WARM_STEPS)
        began_s, before = time.perf_counter(), _counts(client)
        _wait_steps(client, crowd, steps)
        after, ended_s = _counts(client), time.perf_counter()
    eventually(lambda: _is_idle(client), deadline_s=_DEADLINE_S, what="an idle server")
    tokens, taken, preempted = (b - a for a, b in zip(before, after, strict=True))
    return Sample(tokens / (ended_s - began_s), tokens / taken, preempted / tokens * 1000)


def _wait_steps(client: Client, crowd: Crowd, steps: int) -> None:
    until = client.metric("refloat_engine_steps_total") + steps

    def is_there() -> bool:
        crowd.check()
        return client.metric("refloat_engine_steps_total") >= until

    eventually(is_there, deadline_s=_DEADLINE_S, every_s=0.1, what=f"{steps} steps")


def _counts(client: Client) -> tuple[float, float, float]:
    names = ("generated_tokens", "engine_steps", "preemptions")
    tokens, steps, preempted = (client.metric(f"refloat_{name}_total") for name in names)
    return tokens, steps, preempted


def _is_idle(client: Client) -> bool:
    return not client.metric("refloat_running") + client.metric("refloat_waiting")


def best_number(fixed: Mapping[int, list[Sample]], but: int | None = None) -> int:
    """The number of clients with most tokens a second in the rounds, that one left out if there are
    others."""

    def speed(clients: int) -> float:
        samples = fixed[clients]
        others = [sample for number, sample in enumerate(samples) if number != but]
        return statistics.median(sample.tokens_per_s for sample in others or samples)

    return max(fixed, key=speed)


def _ratio(
    crowd: list[Sample], fixed: Mapping[int, list[Sample]], of: Callable[[Sample], float]
) -> Estimate:
    best = [fixed[best_number(fixed, but=number)][number] for number in range(len(crowd))]
    return paired([of(a) for a in crowd], [of(b) for b in best], lambda a, b: a / b)


def token_questions(model: str, prompt: int, least: int, most: int, vocabulary: int) -> Questions:
    """Random ids; answers of a length that the request names."""

    def ask(chance: random.Random) -> Iterator[Question]:
        while True:
            ids = [chance.randrange(vocabulary // 8, vocabulary) for _ in range(prompt)]
            body = {
                "model": model,
                "prompt": ids,
                "max_tokens": chance.randint(least, most),
                "temperature": 0,
                "ignore_eos": True,
            }
            yield Question("/v1/completions", body)

    return ask


def repeat_questions(model: str, least: int, most: int, max_tokens: int) -> Questions:
    """For the scripted model: answers of a length that nobody knows before."""

    def ask(chance: random.Random) -> Iterator[Question]:
        while True:
            text = "x" * chance.randint(least, most)
            body = {
                "model": model,
                "messages": [{"role": "user", "content": f"Repeat: {text}"}],
                "max_tokens": max_tokens,
            }
            yield Question("/v1/chat/completions", body)

    return ask
