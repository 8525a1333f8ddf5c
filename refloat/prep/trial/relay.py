"""Children of one kind, one behind the other: one does the jobs, and the next is started when a job
takes long, so that it stands ready should the first have to be killed."""

from collections.abc import Callable

from refloat.prep.trial.process import (
    Answer,
    ChildGoneError,
    Job,
    TooExpensiveError,
    TrialProcess,
)

#: A child that has lived through so much is replaced: the engine keeps what it has compiled.
_MOST_GROWN_BYTES = 256 << 20


class NotStartedError(Exception):
    """No child came up."""


class Relay:
    """One job at a time."""

    def __init__(self, spawn: Callable[[], TrialProcess], *, start_s: float) -> None:
        """Nothing is started yet. `start_s`: for a child to come up."""
        self._spawn = spawn
        self._start_s = start_s
        self._child: TrialProcess | None = None
        self._next: TrialProcess | None = None
        self._fresh_bytes = 0

    def warm(self) -> None:
        """Have a child come up. Waits for nothing."""
        if self._child is None:
            self._child = self._spawn()

    def relax(self) -> None:
        """Nothing has happened for a time: the next one is not kept for nothing."""
        if self._next is not None:
            self._next.kill()
            self._next = None

    def ask(self, job: Job, *, cpu_s: float, wall_s: float) -> Answer:
        """A child's answer. Raises `TooExpensiveError`, `ChildGoneError` and `NotStartedError`; the
        next job has another child then."""
        child = self._ready()
        try:
            answer = child.ask(job, cpu_s=cpu_s, wall_s=wall_s, takes_long=self._start_next)
        except (TooExpensiveError, ChildGoneError):
            self._replace(child)
            raise
        if child.resident_bytes() > self._fresh_bytes + _MOST_GROWN_BYTES:
            self._replace(child)
        return answer

    def _ready(self) -> TrialProcess:
        child = self._child = self._child or self._spawn()
        try:
            child.wait_ready(self._start_s)
        except (TooExpensiveError, ChildGoneError):
            child.kill()
            self._child, self._next = self._next, None
            raise NotStartedError from None
        self._fresh_bytes = self._fresh_bytes or child.resident_bytes()
        return child

    def _start_next(self) -> None:
        if self._next is None:
            self._next = self._spawn()

    def _replace(self, child: TrialProcess) -> None:
        child.kill()
        self._child, self._next = self._next or self._spawn(), None
