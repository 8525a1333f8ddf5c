"""The jobs of one prep process, in line. Pure: what is sent, who is at the head, and for how long.

Prep does one job after another in the order sent, so the first of those sent is the one it is at, and
the one to blame when it does not come back. Those that wait are sent by turns, one of each tenant.
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
    tenant: str = ""
    """Who asks; nobody but the server itself without a name."""
    losses: int = 0
    """Prep processes that ended while this job was at the head."""


@dataclass(slots=True)
class JobLine:
    """At most `window` jobs are sent at a time."""

    window: int = 8
    head_age_s: float = 0.0
    """How long prep has been at the first job, as far as was watched."""
    _sent: dict[int, Job] = field(default_factory=dict[int, Job])
    _waiting: dict[str, dict[int, Job]] = field(default_factory=dict[str, dict[int, Job]])
    """By tenant, whose turn it is first; each tenant's in the order of their arrival."""

    @property
    def head(self) -> Job | None:
        """The job that prep is at; `None`: it has none."""
        return next(iter(self._sent.values()), None)

    def add(self, job: Job) -> None:
        """Behind the others of its tenant."""
        self._waiting.setdefault(job.tenant, {})[job.number] = job

    def send_some(self, send: Callable[[msgspec.Struct], None]) -> None:
        """Send what the window allows."""
        while self._waiting and len(self._sent) < self.window:
            job = self._next()
            self._sent[job.number] = job
            send(job.message)

    def take(self, number: int) -> Job | None:
        """Out of the line: answered or convicted."""
        head, job = self.head, self._sent.pop(number, None)
        if job is not None and job is head:
            self.head_age_s = 0.0
        return job

    def give_up(self, job: Job) -> None:
        """Nobody waits for it any more. Once sent it keeps its place, since prep is still at it."""
        jobs = self._waiting.get(job.tenant, {})
        if jobs.pop(job.number, None) is not None and not jobs:
            del self._waiting[job.tenant]

    def watched(self, elapsed_s: float) -> None:
        """Time went by."""
        self.head_age_s = self.head_age_s + elapsed_s if self.head is not None else 0.0

    def recall(self) -> Job | None:
        """Prep is gone: all jobs that somebody waits for are to be sent again, the former head first.
        That head."""
        head, again = self.head, dict[str, dict[int, Job]]()
        for job in self._sent.values():
            if not job.answer.done():
                again.setdefault(job.tenant, {})[job.number] = job
        for tenant, jobs in self._waiting.items():
            again.setdefault(tenant, {}).update(jobs)
        self._sent, self._waiting = {}, again
        self.head_age_s = 0.0
        return head

    def clear(self) -> list[Job]:
        """Empty the line."""
        waiting = (job for jobs in self._waiting.values() for job in jobs.values())
        jobs = [*self._sent.values(), *waiting]
        self._sent, self._waiting = {}, {}
        self.head_age_s = 0.0
        return jobs

    def _next(self) -> Job:
        """Out of the line of whose turn it is, who then goes behind the others."""
        tenant, jobs = next(iter(self._waiting.items()))
        del self._waiting[tenant]
        job = jobs.pop(next(iter(jobs)))
        if jobs:
            self._waiting[tenant] = jobs
        return job
