"""Whether a child still makes progress, judged from outside it. Pure: readings and time come in.

Progress is a write to the page (`wire/progress.py`); a sign of life is time used on the processor or
on the device. Standing still is measured between the gateway's own readings: a page can be scribbled
on, and a gateway that was itself stopped for a while must not hold that against its children.
"""

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import assert_never

from refloat.supervisor.device_use import DeviceUse, has_advanced
from refloat.wire.progress import Phase, Progress


@dataclass(frozen=True, slots=True)
class Budget:
    """How long a child may stand still (`prediction.py` says how long for a step)."""

    floor_s: float
    """Without any progress: page, processor time and device time."""
    cap_s: float
    """Without progress on the page, although processor or device time advances."""
    stopped_s: float = math.inf
    """Stopped by somebody (SIGSTOP), whatever it was doing or not doing."""


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
    has_unread: bool = False
    """Whether it has sent what the gateway has not read: it may be blocked by that."""
    device_use: DeviceUse | None = None
    """Its counters on the device; `None`: not looked at."""
    is_stopped: bool = False
    """Somebody has stopped it: it can do nothing, pending or not."""


class Verdict(StrEnum):
    """What a reading says."""

    WELL = "well"
    LATE = "late"
    """Half of the budget is used up."""
    STALLED = "stalled"


def is_working(progress: Progress | None, *, has_pending: bool, has_unread: bool = False) -> bool:
    """Whether progress can be expected. A worker that waits for commands need not make any unless it
    owes an answer, and one that waits for the gateway to read cannot."""
    if progress is None:
        return has_pending
    match progress.phase:
        case Phase.STARTING | Phase.LOADING | Phase.ADDING | Phase.STEPPING | Phase.PROBING:
            return True
        case Phase.IDLE:
            return has_pending
        case Phase.SENDING:
            return has_pending and not has_unread
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
        self._device_use: DeviceUse | None = None
        self._page_still_s = 0.0
        self._lifeless_s = 0.0
        self.stopped_s = 0.0
        """Seconds for which somebody has stopped it."""

    @property
    def still_s(self) -> float:
        """Seconds for which neither page nor processor nor device has moved."""
        return min(self._page_still_s, self._lifeless_s)

    @property
    def page_still_s(self) -> float:
        """Seconds for which the page has not moved, work or not."""
        return self._page_still_s

    def judge(self, reading: Reading, budget: Budget, *, longest_gap_s: float) -> Verdict:
        """Take a reading and judge it. A gap between readings counts as `longest_gap_s` at most:
        what happened while the gateway itself stood still is not known."""
        elapsed_s = min(max(reading.at_s - self._read_s, 0.0), longest_gap_s)
        self._read_s = reading.at_s
        working = is_working(
            reading.progress, has_pending=reading.has_pending, has_unread=reading.has_unread
        )
        working = working or reading.is_stopped
        beats = self._beats if reading.progress is None else reading.progress.beats
        page_moved = beats != self._beats or not working
        self._beats = beats
        self._page_still_s = 0.0 if page_moved else self._page_still_s + elapsed_s
        is_alive = self._shows_life(reading) or page_moved
        self._lifeless_s = 0.0 if is_alive else self._lifeless_s + elapsed_s
        self.stopped_s = self.stopped_s + elapsed_s if reading.is_stopped else 0.0
        if self.still_s > budget.floor_s or self._page_still_s > budget.cap_s:
            return Verdict.STALLED
        if self.stopped_s > budget.stopped_s:
            return Verdict.STALLED
        if self.still_s > budget.floor_s / 2 or self._page_still_s > budget.cap_s / 2:
            return Verdict.LATE
        return Verdict.WELL

    def _shows_life(self, reading: Reading) -> bool:
        """Whether it has used the processor or the device since the last reading."""
        cpu_s = self._cpu_s if reading.cpu_s is None else reading.cpu_s
        before, self._device_use = self._device_use, reading.device_use
        is_alive = cpu_s > self._cpu_s
        self._cpu_s = cpu_s
        if before is not None and reading.device_use is not None:
            is_alive = is_alive or has_advanced(before, reading.device_use)
        return is_alive
