"""What others' requests do to one's own: a long prompt to running streams, a crowd to a newcomer."""

import itertools
import random
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from refloat.bench.crowd import Crowd, Question
from refloat.bench.measure import Progress
from refloat.bench.paired import Estimate, estimate, paired
from refloat.testing.client import Client
from refloat.testing.harness import Server

STREAMS = 8
LONG_PROMPT = 1500
_SHORT_PROMPT = 32
_TEXT = '"text":"'
_KEYS = ("sk-bench-of-the-many-0001", "sk-bench-of-the-one-00002")
_SETTLE_S = 1.0
#: Enough that no stream ends before the measurement, and within a small model's context.
_STREAM_TOKENS = 4000


class Intrusion(NamedTuple):
    """Times between tokens of eight streams, with one setting of the chunk."""

    batched_tokens: int
    target_ms: float | None
    """`inter_token_target_ms`, if the chunk was left to the engine."""
    quiet_p99_s: float
    p99_s: float
    """While a long prompt is computed."""
    longest_s: float
    first_token_s: float
    """Of the long prompt: its median."""


class Fairness(NamedTuple):
    """Of a tenant's single request, by what another tenant has there."""

    slots: int
    many: int
    share_steps: Estimate
    """Engine steps until its first token while the other has its share of the slots."""
    beside_steps: Estimate
    """While the other has many requests."""
    ratio: Estimate


def intrusion(
    model: dict[str, Any], batched_tokens: int, *, rounds: int, progress: Progress
) -> Intrusion:
    """Eight streams, and a long prompt every now and then."""
    chance = random.Random(7)
    name = str(model["name"])
    config = {"models": [{**model, "max_num_batched_tokens": batched_tokens}]}
    arrivals: list[float] = []
    firsts: list[float] = []
    with Server.start(config=config, log_level="info") as server, ExitStack() as stack:
        streams = [_Listener(server.client(timeout_s=300), name, chance) for _ in range(STREAMS)]
        for stream in streams:
            stack.enter_context(stream)
        time.sleep(_SETTLE_S)
        for round_number in range(rounds):
            began_s = time.perf_counter()
            body = _body(name, chance, LONG_PROMPT, 1)
            firsts.append(_first_text_s(server.client(timeout_s=300), body))
            arrivals += [began_s, began_s + firsts[-1]]
            time.sleep(firsts[-1])
            progress(f"chunks of {batched_tokens}, prompt {round_number + 1} of {rounds}")
    gaps = list(itertools.chain.from_iterable(stream.gaps() for stream in streams))
    spans = list(zip(arrivals[::2], arrivals[1::2], strict=True))
    beside = sorted(gap for at, gap in gaps if _is_within(at, gap, spans))
    quiet = sorted(gap for at, gap in gaps if not _is_within(at, gap, spans))
    return Intrusion(
        batched_tokens,
        model.get("inter_token_target_ms"),
        _p99(quiet),
        _p99(beside),
        beside[-1],
        estimate(firsts).median,
    )


def fairness(*, slots: int, many: int, rounds: int, progress: Progress) -> Fairness:
    """On the scripted engine, whose steps all take the same time, so that they can be counted."""
    step_s = 0.02
    model = {
        "model": "scripted",
        "name": "bench",
        "max_num_seqs": slots,
        "max_queue": many + slots,
        "engine_options": {"step_s": step_s},
    }
    figures: dict[int, list[float]] = {}
    with TemporaryDirectory(prefix="refloat-bench-") as folder:
        keys = Path(folder) / "keys"
        keys.write_text("\n".join(_KEYS) + "\n", encoding="utf-8")
        keys.chmod(0o600)
        config = {"models": [model], "server": {"api_key_file": str(keys)}}
        with Server.start(config=config, log_level="info") as server:
            for others in (slots // 2, many):
                figures[others] = _first_texts(server, others, rounds)
                progress(f"one request beside {others} of another tenant")
    share, beside = ([s / step_s for s in waits] for waits in figures.values())
    ratio = paired(beside, share, lambda a, b: a / b)
    return Fairness(slots, many, estimate(share), estimate(beside), ratio)


def _first_texts(server: Server, others: int, rounds: int) -> list[float]:
    chance = random.Random(11)
    client = server.client(api_key=_KEYS[1], timeout_s=300)
    with Crowd(server.url, _questions(chance), others, api_key=_KEYS[0]):
        time.sleep(_SETTLE_S)
        return [
            _first_text_s(client, _body("bench", chance, _SHORT_PROMPT, 4)) for _ in range(rounds)
        ]


def _questions(chance: random.Random) -> Iterator[Question]:
    while True:
        yield Question("/v1/completions", _body("bench", chance, _SHORT_PROMPT, 400))


def _body(model: str, chance: random.Random, prompt: int, tokens: int) -> dict[str, Any]:
    return {
        "model": model,
        "prompt": [chance.randrange(60, 120) for _ in range(prompt)],
        "max_tokens": tokens,
        "temperature": 0,
        "ignore_eos": True,
    }


def _first_text_s(client: Client, body: dict[str, Any]) -> float:
    began_s = time.perf_counter()
    with client.stream("/v1/completions", {**body, "stream": True}) as stream:
        for data in stream.data():
            if _TEXT in data:
                return time.perf_counter() - began_s
    raise AssertionError("a stream without text")


class _Listener:
    """One stream for as long as the context lasts."""

    def __init__(self, client: Client, model: str, chance: random.Random) -> None:
        self._client = client
        self._body = _body(model, chance, _SHORT_PROMPT, _STREAM_TOKENS)
        self._at: list[float] = []
        self._is_leaving = threading.Event()
        self._thread = threading.Thread(target=self._listen, daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._is_leaving.set()
        self._thread.join(30)

    def gaps(self) -> Iterator[tuple[float, float]]:
        """Between two events: when the later one came, and how long after."""
        for before, after in itertools.pairwise(self._at):
            yield after, after - before

    def _listen(self) -> None:
        with self._client.stream("/v1/completions", {**self._body, "stream": True}) as stream:
            for data in stream.data():
                self._at.append(time.perf_counter())
                if self._is_leaving.is_set() or _TEXT not in data:
                    return


def _is_within(at: float, gap: float, spans: Sequence[tuple[float, float]]) -> bool:
    return any(at >= begin and at - gap <= end for begin, end in spans)


def _p99(ordered: Sequence[float]) -> float:
    return ordered[min(len(ordered) - 1, int(len(ordered) * 0.99))]
