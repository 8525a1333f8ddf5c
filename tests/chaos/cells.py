"""The table of cells: fault × phase × (stream, not) × (1, 16 clients), and how one of them is run.

Every cell's model knows its answers, so each is compared whole. What a fault has to be recognised as
is in the table too: a cell whose fault was never fired proves nothing.
"""

import os
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

from refloat.testing.client import Client
from refloat.testing.harness import Server
from refloat.testing.outcome import Outcome, ask
from refloat.testing.patience import eventually
from refloat.testing.witness import ReadinessWitness

#: What a fault in service has to be recorded as. Those that a process does to itself.
CAUSES: Mapping[str, str] = {
    "raise": "step_fault",
    "context_fatal": "context_fatal",
    "wedge": "step_fault",
    "segv": "death",
    "abort": "death",
    "kill": "death",
    "exit": "death",
    "hang": "stall",
    "garbage": "protocol",
    "close_socket": "death",
    "stop": "stall",
}
#: The same while loading. Nothing can wedge before its first step.
LOAD_CAUSES: Mapping[str, str] = {
    **{kind: cause for kind, cause in CAUSES.items() if kind != "wedge"},
    "raise": "load_failed",
    "context_fatal": "load_failed",
}
#: What can be done to an idle worker from outside.
SIGNALS: Mapping[str, tuple[signal.Signals, str]] = {
    "segv": (signal.SIGSEGV, "death"),
    "abort": (signal.SIGABRT, "death"),
    "kill": (signal.SIGKILL, "death"),
    "term": (signal.SIGTERM, "death"),
    "stop": (signal.SIGSTOP, "stall"),
}

CLIENTS = (1, 16)
#: How often a long version runs every cell.
ROUNDS = int(os.environ.get("SOAK_ROUNDS", "20"))
#: Long enough for several chunks of prefill.
FILLING = "Words that only make the prompt longer. " * 5
#: Batched tokens of a step; see `FILLING`.
STEP_TOKENS = 64
#: Budgets scaled down; the machine may be busy, so not to nothing.
QUICK = {"stall_floor_s": 0.6, "load_timeout_s": 1.0}
GAUGES = ("refloat_running", "refloat_waiting", "refloat_kv_blocks_used")


@dataclass(frozen=True)
class Cell:
    """One combination."""

    kind: str
    phase: str
    stream: bool
    clients: int
    turn: int = 0
    """Of many, each with a fault of its own."""

    @property
    def tag(self) -> str:
        """Stands in the prompt of the one request that the fault waits for."""
        return f"[{self} {self.turn}]"

    def __str__(self) -> str:
        mode = "stream" if self.stream else "whole"
        return f"{self.phase}-{self.kind}-{mode}-{self.clients}"


def cells(phase: str, kinds: Sequence[str]) -> list[Cell]:
    """All cells of a phase."""
    return [
        Cell(kind, phase, stream, clients)
        for kind in kinds
        for stream in (True, False)
        for clients in CLIENTS
    ]


IN_SERVICE = [
    cell for phase in ("queued", "prefill", "decode", "last") for cell in cells(phase, [*CAUSES])
]
IDLE = cells("idle", [*SIGNALS])


def text_of(number: int) -> str:
    """The answer of a client: its own, with characters of one to four bytes, a byte a token (it
    holds no piece that the scripted model has a token for)."""
    return f"{number}: √2≈1.414; 日 🚢; Ä={number * 7919}"


def fault_of(cell: Cell) -> dict[str, Any]:
    """The plan's entry for a cell."""
    entry: dict[str, Any] = {"kind": cell.kind, "match": cell.tag}
    match cell.phase:
        case "prefill":
            return {**entry, "at": "step", "skip": 1}  # its first chunk has been computed
        case "last":
            return {**entry, "at": "token", "token": len(text_of(0).encode())}
        case _:
            return {**entry, "at": "token", "token": 5}


def model_of(phase: str, turns: int = 1) -> dict[str, Any]:
    """The model in which all cells of a phase wait for their requests."""
    chosen = [cell for cell in IN_SERVICE if cell.phase == phase]
    return {
        "model": "scripted",
        "name": phase,
        "max_num_batched_tokens": STEP_TOKENS,
        "max_num_seqs": 1 if phase == "queued" else 32,
        "engine_options": {} if phase == "queued" else {"step_s": 0.001},
        "faults": [fault_of(replace(cell, turn=n)) for cell in chosen for n in range(turns)],
        **QUICK,
    }


def body_of(model: str, number: int, *, stream: bool, tag: str = "") -> dict[str, Any]:
    """One client's request."""
    body: dict[str, Any] = {
        "model": model,
        "messages": [
            {"role": "system", "content": f"{FILLING}{tag}"},
            {"role": "user", "content": f"Repeat: {text_of(number)}"},
        ],
        "temperature": 0,
        "stream": stream,
    }
    return body | ({"stream_options": {"include_usage": True}} if stream else {})


def bodies_of(cell: Cell, model: str) -> list[dict[str, Any]]:
    """What the clients of a cell send; the first one meets the fault."""
    return [
        body_of(model, number, stream=cell.stream, tag=cell.tag if number == 0 else "")
        for number in range(cell.clients)
    ]


def witness(client: Client, model: str) -> ReadinessWitness:
    """One that watches while a cell is run."""
    return ReadinessWitness(client, client.chat_body("Hi", model=model, max_tokens=3), every_s=0.1)


def run_in_service(server: Server, cell: Cell) -> None:
    """A fault at its place in a step, fired by the tagged request."""
    client = server.client()
    with watched(server, cell, cell.phase, CAUSES[cell.kind]):
        bodies = bodies_of(cell, cell.phase)
        if cell.phase == "queued":  # one runs, and meets the fault; the clients wait behind it
            holder, *_ = bodies
            bodies = [body_of(cell.phase, n, stream=cell.stream) for n in range(cell.clients)]
            with ThreadPoolExecutor(1) as pool:
                running = pool.submit(ask, client, holder)
                check_all(send_all(client, bodies), cell)
                check_all([running.result()], cell)
        else:
            check_all(send_all(client, bodies), cell)


def run_idle(server: Server, cell: Cell, model: str) -> None:
    """A signal from outside while nothing runs; then the clients come."""
    number, cause = SIGNALS[cell.kind]
    client = server.client()
    pid = eventually(lambda: server.worker_pid(model), what="a worker")
    with watched(server, cell, model, cause):
        os.kill(pid, number)
        check_all(send_all(client, bodies_of(cell, model)), cell)


def send_all(client: Client, bodies: Sequence[Mapping[str, Any]]) -> list[Outcome]:
    """All at once."""
    with ThreadPoolExecutor(len(bodies)) as pool:
        sent: list[Future[Outcome]] = [pool.submit(ask, client, body) for body in bodies]
        return [future.result() for future in sent]


def check_all(outcomes: Sequence[Outcome], cell: Cell) -> None:
    """Every answer is complete and exactly right."""
    for number, outcome in enumerate(outcomes):
        assert outcome.is_right, f"{cell}, client {number}: {outcome.describe()}"
        assert outcome.text == text_of(number), f"{cell}, client {number}: {outcome.text!r}"
        assert outcome.finish_reasons == {0: "stop"}, f"{cell}, client {number}"
        assert outcome.usage is not None
        tokens = len(text_of(number).encode()) + 1
        assert outcome.usage["completion_tokens"] == tokens, f"{cell}, client {number}"


class watched:
    """Around a cell: the fault is recorded under its cause, nobody was lied to, nothing is left."""

    def __init__(self, server: Server, cell: Cell, model: str, cause: str) -> None:
        self._server = server
        self._client = server.client()
        self._cell = cell
        self._model = model
        self._cause = cause
        self._witness = witness(self._client, model)

    def __enter__(self) -> None:
        self._before = self._restarts()
        self._witness.__enter__()

    def __exit__(self, kind: type[BaseException] | None, *rest: Any) -> None:
        self._witness.__exit__(kind, *rest)
        if kind is not None:
            return
        assert not self._witness.lies, f"{self._cell}: {self._witness.lies}"
        assert self._restarts() > self._before, f"{self._cell}: no {self._cause} was recorded"
        check_rest(self._server, self._model)

    def _restarts(self) -> float:
        return self._client.metric(
            "refloat_worker_restarts_total", model=self._model, cause=self._cause
        )


def check_rest(server: Server, model: str) -> None:
    """A normal request is served, and nothing is left of what came before."""
    client = server.client()
    answer = ask(client, body_of(model, 0, stream=False))
    assert answer.text == text_of(0), answer.describe()
    eventually(
        lambda: not any(client.metrics(*GAUGES, model=model).values()),
        every_s=0.1,
        what="nothing running, waiting or held",
    )


def terminal_events(server: Server) -> Iterator[tuple[str, int]]:
    """(request, number of ends) of every request that has ended, from the log."""
    counts: dict[str, int] = {}
    for entry in server.events("request_ended"):
        counts[entry["request_id"]] = counts.get(entry["request_id"], 0) + 1
    yield from counts.items()


Run = Callable[[Server, Cell], None]
