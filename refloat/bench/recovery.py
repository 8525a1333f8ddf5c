"""What a worker's death costs: the pause in a stream against a bare load, how soon it is known, and
what every token pays for it in its journal.

Rounds alternate between the bare load in a fresh process and the server's recovery, since a shared
machine's times scatter more than what is to be compared.
"""

import itertools
import os
import signal
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple

import psutil

from refloat.bench.measure import Progress, Prompts
from refloat.bench.paired import Estimate, estimate, paired
from refloat.bench.yardstick import BareEngine
from refloat.generation.journal import Journal
from refloat.testing.client import Client
from refloat.testing.harness import Server
from refloat.testing.outcome import COMPLETIONS, Outcome, ask
from refloat.testing.patience import eventually
from refloat.wire.messages import Output, SamplingParams

#: Enough that the worker is gone before the answer is whole, on any model.
_TOKENS = 160
_KILL_AT = 16
_DEADLINE_S = 600.0
_JOURNAL_TOKENS = 20_000


class Recovery(NamedTuple):
    """Of a model's only worker."""

    pause_s: Estimate
    """From the last token before the SIGKILL to the first one after it, as the client sees it."""
    bare_load_s: Estimate
    """A bare pipeline in a fresh process, from its start to ready."""
    ratio: Estimate
    added_s: Estimate
    """Pause minus bare load, pair by pair."""
    bare_first_s: Estimate
    """What the bare pipeline then takes for its first two tokens: kernels are built with them, so
    that no server can be back sooner."""
    detection_s: Estimate
    """From SIGKILL to the state's change in the gateway, the kernel's teardown included."""
    resident_bytes: int
    """Of the worker that was killed."""


class Takeover(NamedTuple):
    """The same with a loaded spare."""

    pause_s: Estimate
    prefill_s: Estimate
    """TTFT of a prompt as long as prompt + emitted tokens, on the undisturbed server."""
    added_s: Estimate


class JournalCost(NamedTuple):
    """What keeping a generation as a value costs, for each of its tokens."""

    accept_us: Estimate
    bytes_per_token: float


def recovery(
    model: Mapping[str, Any],
    bare: Callable[[], BareEngine],
    *,
    rounds: int,
    progress: Progress,
) -> Recovery:
    """SIGKILL in mid-stream, once a round."""
    pauses: list[float] = []
    loads: list[float] = []
    firsts: list[float] = []
    detections: list[float] = []
    resident = 0
    with Server.start(config={"models": [dict(model)]}) as server:
        name = str(model["name"])
        prompts = Prompts.for_model(server, name, seed=3)
        for round_number in range(-1, rounds):
            began_s = time.perf_counter()
            with bare() as engine:
                load_s = time.perf_counter() - began_s
                first_s = engine.run(prompts.take(1), 2).wall_s
            kill = _Kill(server, name)
            outcome = _stream(server.client(timeout_s=_DEADLINE_S), model, prompts, kill)
            server.wait_ready(_DEADLINE_S)
            resident = kill.resident_bytes
            if round_number >= 0:
                loads.append(load_s)
                firsts.append(first_s)
                pauses.append(outcome.longest_gap_s)
                detections.append(_detection_s(server, kill))
            progress(f"recovery, round {round_number + 1} of {rounds}")
    return Recovery(
        estimate(pauses),
        estimate(loads),
        paired(pauses, loads, lambda pause, load: pause / load),
        paired(pauses, loads, lambda pause, load: pause - load),
        estimate(firsts),
        estimate(detections),
        resident,
    )


def takeover(model: Mapping[str, Any], *, rounds: int, progress: Progress) -> Takeover:
    """The same where a spare stands by; each round waits until the next one does."""
    pauses: list[float] = []
    prefills: list[float] = []
    with Server.start(config={"models": [{**model, "spares": 1}]}) as server:
        client, name = server.client(timeout_s=_DEADLINE_S), str(model["name"])
        prompts = Prompts.for_model(server, name, seed=4)
        for round_number in range(-1, rounds):
            eventually(lambda: _loaded(client, name) >= 2, deadline_s=_DEADLINE_S, what="a spare")
            (prompt,) = prompts.take(1)
            alone = ask(client, _body(name, prompt[:_KILL_AT] + prompt, 2), COMPLETIONS)
            outcome = _stream(client, model, prompts, _Kill(server, name))
            if round_number >= 0:
                pauses.append(outcome.longest_gap_s)
                prefills.append(alone.first_text_s or 0.0)
            progress(f"take-over by a spare, round {round_number + 1} of {rounds}")
    return Takeover(
        estimate(pauses),
        estimate(prefills),
        paired(pauses, prefills, lambda pause, prefill: pause - prefill),
    )


def journal_cost(rounds: int) -> JournalCost:
    """A journal alone, fed as a worker's frames feed it."""
    costs: list[float] = []
    size = 0.0
    for _ in range(rounds):
        params = SamplingParams(max_tokens=_JOURNAL_TOKENS + 1, temperature=0.0)
        journal = Journal(1, "bench", 0, [1] * 64, params)
        journal.dispatch()
        outputs = [Output(1, 1, n, (n % 1000,)) for n in range(_JOURNAL_TOKENS)]
        began_s = time.perf_counter()
        for output in outputs:
            journal.accept(output)
        costs.append((time.perf_counter() - began_s) / _JOURNAL_TOKENS * 1e6)
        assert len(journal.emitted) == _JOURNAL_TOKENS
        size = journal.emitted.__sizeof__() / _JOURNAL_TOKENS
    return JournalCost(estimate(costs), size)


class _Kill:
    """SIGKILLs the serving worker when called, and remembers when that was."""

    def __init__(self, server: Server, model: str) -> None:
        self._pid = eventually(lambda: server.worker_pid(model), what="a worker")
        self.resident_bytes = psutil.Process(self._pid).memory_info().rss
        self.at: datetime | None = None

    def __call__(self) -> None:
        self.at = datetime.now(UTC)
        os.kill(self._pid, signal.SIGKILL)

    @property
    def pid(self) -> int:
        return self._pid


def _stream(client: Client, model: Mapping[str, Any], prompts: Prompts, kill: _Kill) -> Outcome:
    """One stream whose worker is killed when some tokens have come. Raises `RuntimeError` if it did
    not get to its end all the same: a figure of a lost answer would be none."""
    (prompt,) = prompts.take(1)
    texts = itertools.count(1)

    def on_text() -> None:
        if next(texts) == _KILL_AT:
            kill()

    body = _body(str(model["name"]), prompt, _TOKENS)
    outcome = ask(client, body, COMPLETIONS, on_text=on_text)
    if not outcome.is_right or (outcome.usage or {}).get("completion_tokens") != _TOKENS:
        raise RuntimeError(f"the stream did not survive: {outcome.describe()}")
    return outcome


def _body(name: str, prompt: list[int], tokens: int) -> dict[str, Any]:
    return {
        "model": name,
        "prompt": prompt,
        "max_tokens": tokens,
        "temperature": 0,
        "ignore_eos": True,
        "stream": True,
        "stream_options": {"include_usage": True},
    }


def _detection_s(server: Server, kill: _Kill) -> float:
    """By the log: a change of state is written before anything else is done about it."""
    spawned = {
        entry["worker_id"]: entry["pid"]
        for entry in server.events("child_spawned")
        if entry["program"] == "worker"
    }
    for entry in reversed(server.events("slot_state")):
        if entry["state"] == "exited" and spawned.get(entry["worker_id"]) == kill.pid:
            assert kill.at is not None
            return (datetime.fromisoformat(entry["timestamp"]) - kill.at).total_seconds()
    raise RuntimeError("the log does not tell of the worker's end: the answer was faster")


def _loaded(client: Client, name: str) -> int:
    """Workers of a model that have loaded, the serving one included."""
    models = client.get("/health").json()["models"]
    workers = next(model["workers"] for model in models if model["name"] == name)
    return sum(worker["state"] == "ready" for worker in workers)
