"""The jobs of one prep process, in line. Pure: what is sent, who is at the head, and for how long.

Prep does one job after another in the order sent, so the first job in line is the one it is at, and
the one to blame when it does not come back.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import msgspec


@dataclass(slots=True, eq=False)
class Job:
    """One question to prep."""

    number: int
    message: msgspec.Struct
    what: str
    """For people: `the chat template`."""
    answer: asyncio.Future[Any]
    is_sent: bool = False
    losses: int = 0
    """Prep processes that ended while this job was at the head."""


@dataclass(slots=True)
class JobLine:
    """Jobs in the order of their arrival; at most `window` are sent at a time."""

    window: int = 8
    head_age_s: float = 0.0
    """How long prep has been at the first job, as far as was watched."""
    _jobs: dict[int, Job] = field(default_factory=dict[int, Job])

    @property
    def head(self) -> Job | None:
        """The job that prep is at; `None`: it has none."""
        first = next(iter(self._jobs.values()), None)
        return first if first is not None and first.is_sent else None

    def add(self, job: Job) -> None:
        """To the end."""
        self._jobs[job.number] = job

    def send_some(self, send: Callable[[msgspec.Struct], None]) -> None:
        """Send what the window allows."""
        for job in list(self._jobs.values())[: self.window]:
            if not job.is_sent:
                job.is_sent = True
                send(job.message)

    def take(self, number: int) -> Job | None:
        """Out of the line: answered or convicted."""
        if self.head is self._jobs.get(number):
            self.head_age_s = 0.0
        return self._jobs.pop(number, None)

    def give_up(self, job: Job) -> None:
        """Nobody waits for it any more. Once sent it keeps its place, since prep is still at it."""
        if not job.is_sent:
            self._jobs.pop(job.number, None)

    def watched(self, elapsed_s: float) -> None:
        """Time went by."""
        self.head_age_s = self.head_age_s + elapsed_s if self.head is not None else 0.0

    def recall(self) -> Job | None:
        """Prep is gone: all jobs that somebody waits for are to be sent again. The former head."""
        head = self.head
        for job in list(self._jobs.values()):
            job.is_sent = False
            if job.answer.done():
                del self._jobs[job.number]
        self.head_age_s = 0.0
        return head

    def clear(self) -> list[Job]:
        """Empty the line."""
        jobs = list(self._jobs.values())
        self._jobs.clear()
        self.head_age_s = 0.0
        return jobs
