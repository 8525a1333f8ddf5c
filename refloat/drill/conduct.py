"""One trial on a running server: provoke the fault, read what every client got, compare it with an
undisturbed run of the same requests."""

import os
from collections.abc import Container, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from refloat.drill.trial import SIGNALS, Phase, Trial, bodies_for
from refloat.testing.client import Client
from refloat.testing.harness import Server
from refloat.testing.outcome import COMPLETIONS, Outcome, ask
from refloat.testing.patience import eventually
from refloat.testing.witness import ReadinessWitness

_RECOVERY_S = 600.0


@dataclass(frozen=True)
class Course:
    """What holds for all trials of a drill."""

    model: str
    clients: int
    tokens: int
    """Of every answer."""
    is_exact: bool
    """Whether texts have to be identical, or only as long and whole."""


@dataclass(frozen=True)
class Finding:
    """What one trial showed."""

    trial: Trial
    pauses_s: tuple[float, ...]
    """For each stream that met the fault: the longest wait for a token."""
    statuses: Mapping[int, int]
    """Status codes and how many clients had them."""
    lost: int
    """Tokens that should have come and did not, over all clients."""
    repeated: int
    """Tokens beyond those that should have come."""
    different: int
    """Answers whose text is another than the undisturbed run's."""
    lies: tuple[str, ...]
    causes: tuple[str, ...]
    """What the server recorded."""
    troubles: tuple[str, ...]
    """Why it does not hold; empty: it does."""

    @property
    def holds(self) -> bool:
        """Whether the server kept its promises."""
        return not self.troubles


def conduct(server: Server, trial: Trial, course: Course) -> Finding:
    """Run one trial. Raises only if the server itself is gone."""
    client = server.client(timeout_s=_RECOVERY_S)
    losses_before = len(_losses(server))
    bodies = bodies_for(trial, course.clients, course.tokens, course.model, marked=True)
    check = {"model": course.model, "prompt": [50, 51, 52], "max_tokens": 2, "temperature": 0}
    with ReadinessWitness(client, check, path=COMPLETIONS) as witness:
        _provoke(server, trial, course.model)
        disturbed = _ask_all(client, bodies)
    server.wait_ready(_RECOVERY_S)
    undisturbed = _ask_all(client, bodies)
    causes = tuple(str(entry["cause"]) for entry in _losses(server)[losses_before:])
    resumed = {str(entry["request_id"]) for entry in server.events("generation_resumed")}
    pauses_s = _pauses_s(trial, disturbed, undisturbed, resumed)
    return _judge(trial, course, disturbed, undisturbed, witness.lies, causes, pauses_s)


def _provoke(server: Server, trial: Trial, model: str) -> None:
    """What a plan cannot do: strike while nothing runs, or make the next load happen."""
    if trial.phase is Phase.IDLE:
        pid = eventually(lambda: server.worker_pid(model), what="a worker")
        os.kill(pid, SIGNALS[trial.act])
    elif trial.phase is Phase.LOADING:
        client = server.client(timeout_s=10)
        server.kill_worker(model)
        path = f"/v2/models/{model}/ready"
        eventually(lambda: client.get(path).status != 200, what="the worker's loss to be seen")


def _ask_all(client: Client, bodies: Sequence[Mapping[str, Any]]) -> list[Outcome]:
    with ThreadPoolExecutor(len(bodies)) as pool:
        sent = [pool.submit(ask, client, body, COMPLETIONS) for body in bodies]
        return [future.result() for future in sent]


def _losses(server: Server) -> list[dict[str, Any]]:
    return [entry for entry in server.events("child_lost") if entry.get("program") == "worker"]


def _judge(
    trial: Trial,
    course: Course,
    disturbed: Sequence[Outcome],
    undisturbed: Sequence[Outcome],
    lies: Sequence[str],
    causes: Sequence[str],
    pauses_s: tuple[float, ...],
) -> Finding:
    counts = [int((outcome.usage or {}).get("completion_tokens", 0)) for outcome in disturbed]
    statuses: dict[int, int] = {}
    for outcome in disturbed:
        statuses[outcome.status] = statuses.get(outcome.status, 0) + 1
    pairs = zip(disturbed, undisturbed, strict=True)
    different = sum(outcome.text != reference.text for outcome, reference in pairs)
    lost = sum(max(0, course.tokens - count) for count in counts)
    repeated = sum(max(0, count - course.tokens) for count in counts)
    wrong = [o.describe() for o in [*disturbed, *undisturbed] if not o.is_right]
    troubles = [
        *wrong,
        *(f"ready was said, and a request failed: {lie}" for lie in lies),
        *([f"{lost} tokens lost"] if lost else []),
        *([f"{repeated} tokens repeated"] if repeated else []),
        *([f"{different} answers differ"] if different and course.is_exact else []),
        *([] if causes else ["no loss was recorded: the fault did not strike"]),
    ]
    return Finding(
        trial=trial,
        pauses_s=pauses_s,
        statuses=statuses,
        lost=lost,
        repeated=repeated,
        different=different,
        lies=tuple(lies),
        causes=tuple(dict.fromkeys(causes)),
        troubles=tuple(troubles),
    )


def _pauses_s(
    trial: Trial,
    disturbed: Sequence[Outcome],
    undisturbed: Sequence[Outcome],
    resumed: Container[str],
) -> tuple[float, ...]:
    """Of streams only: in mid-answer of those that went on in another worker; where no token had come
    yet, what the first one took longer than it does."""
    if trial.phase in (Phase.DECODE, Phase.LAST):
        return tuple(
            outcome.longest_gap_s
            for outcome in disturbed
            if outcome.first_text_s is not None and outcome.request_id in resumed
        )
    return tuple(
        max(0.0, outcome.first_text_s - reference.first_text_s)
        for outcome, reference in zip(disturbed, undisturbed, strict=True)
        if outcome.first_text_s is not None and reference.first_text_s is not None
    )
