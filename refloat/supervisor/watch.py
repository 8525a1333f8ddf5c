"""Whether a child still makes progress, judged from outside it. Pure: readings and time come in.

Progress is a write to the page (`wire/progress.py`) or processor time of the process. Standing still
is measured between the gateway's own readings: a page can be scribbled on, and a gateway that was
itself stopped for a while must not hold that against its children.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import assert_never

from refloat.wire.progress import Phase, Progress


@dataclass(frozen=True, slots=True)
class Budget:
    """How long a child may stand still. A later policy predicts these for each step."""

    floor_s: float
    """Without any progress, page and processor time both."""
    cap_s: float
    """Without progress on the page, although processor time advances."""


@dataclass(frozen=True, slots=True)
class Reading:
    """One look at a child."""

    at_s: float
    progress: Progress | None
    """`None`: nothing written yet, or the writer died in the middle of a write."""
    cpu_s: float | None
    """Processor time the process has used; `None`: not known (it is gone)."""
    has_pending: bool
    """Whether it owes an answer: work was sent and not reported as ended."""


class Verdict(StrEnum):
    """What a reading says."""

    WELL = "well"
    LATE = "late"
    """Half of the budget is used up."""
    STALLED = "stalled"


def is_working(progress: Progress | None, *, has_pending: bool) -> bool:
    """Whether progress can be expected. A worker that waits for commands or for the gateway to read
    is none of it, unless it owes an answer."""
    if progress is None:
        return has_pending
    match progress.phase:
        case Phase.STARTING | Phase.LOADING | Phase.ADDING | Phase.STEPPING | Phase.PROBING:
            return True
        case Phase.IDLE | Phase.SENDING:
            return has_pending
        case Phase.LEAVING:
            return False
        case _:
            assert_never(progress.phase)


class Watch:
    """Remembers when one child was last seen to move."""

    def __init__(self, started_s: float) -> None:
        self._read_s = started_s
        self._beats = -1
        self._cpu_s = -1.0
        self._page_still_s = 0.0
        self._cpu_still_s = 0.0

    @property
    def still_s(self) -> float:
        """Seconds for which neither page nor processor time has moved."""
        return min(self._page_still_s, self._cpu_still_s)

    @property
    def page_still_s(self) -> float:
        """Seconds for which the page has not moved, work or not."""
        return self._page_still_s

    def judge(self, reading: Reading, budget: Budget, *, longest_gap_s: float) -> Verdict:
        """Take a reading and judge it. A gap between readings counts as `longest_gap_s` at most:
        what happened while the gateway itself stood still is not known."""
        elapsed_s = min(max(reading.at_s - self._read_s, 0.0), longest_gap_s)
        self._read_s = reading.at_s
        working = is_working(reading.progress, has_pending=reading.has_pending)
        beats = self._beats if reading.progress is None else reading.progress.beats
        cpu_s = self._cpu_s if reading.cpu_s is None else reading.cpu_s
        page_moved = beats != self._beats or not working
        self._page_still_s = 0.0 if page_moved else self._page_still_s + elapsed_s
        cpu_moved = page_moved or cpu_s > self._cpu_s
        self._cpu_still_s = 0.0 if cpu_moved else self._cpu_still_s + elapsed_s
        self._beats, self._cpu_s = beats, cpu_s
        if self.still_s > budget.floor_s or self._page_still_s > budget.cap_s:
            return Verdict.STALLED
        if self.still_s > budget.floor_s / 2 or self._page_still_s > budget.cap_s / 2:
            return Verdict.LATE
        return Verdict.WELL
