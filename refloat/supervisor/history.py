"""What a slot remembers of its children: how long they took and served, how often they were lost.

Pure; decides whether a lost child is followed by another.
"""

import statistics
from collections import deque
from typing import NamedTuple

from refloat.supervisor.backoff import CrashBudget
from refloat.supervisor.lifecycle import WorkerEvent, WorkerState

_REMEMBERED_REBUILDS = 9
_SERVING = (WorkerState.READY, WorkerState.SUSPECT)


class Loss(NamedTuple):
    """How a program judges the loss of a child."""

    had_progress: bool
    """Something was achieved since the last loss."""
    is_charged: bool = True
    """Counts against the crash budget. A job that is to blame is charged in its place."""
    is_hopeless: bool = False
    """Another child would fail the same way."""
    opens_breaker: bool = False
    """Another try is of use only after a while, however few there were."""


class SlotHistory:
    """One slot's past."""

    def __init__(self, budget: CrashBudget, now_s: float) -> None:
        self._budget = budget
        self._spawned_s = now_s
        self._ready_s: float | None = None
        self._rebuilds_s: deque[float] = deque(maxlen=_REMEMBERED_REBUILDS)

    @property
    def series(self) -> int:
        """Losses in a row without progress."""
        return self._budget.series

    @property
    def rebuild_estimate_s(self) -> float | None:
        """Seconds from a start to READY, the median of this slot's own; `None` before the first."""
        return statistics.median(self._rebuilds_s) if self._rebuilds_s else None

    def moved(self, before: WorkerState, state: WorkerState, now_s: float) -> None:
        """The slot changed its state."""
        if state is WorkerState.SPAWNING:
            self._spawned_s = now_s
        elif state is WorkerState.READY and before not in _SERVING:
            self._ready_s = now_s
            self._rebuilds_s.append(now_s - self._spawned_s)
        elif before in _SERVING and state not in _SERVING and self._ready_s is not None:
            self._budget.served_s += now_s - self._ready_s
            self._ready_s = None

    def after(self, loss: Loss) -> WorkerEvent:
        """What follows a loss, now that the child is reaped."""
        if loss.had_progress:
            self._budget.clear()
        if loss.is_charged:
            self._budget.charge(self._budget.served_s)
        if loss.is_hopeless:
            return WorkerEvent.GIVE_UP
        is_over = loss.opens_breaker or self._budget.is_spent
        return WorkerEvent.BREAK if is_over else WorkerEvent.RETRY

    def clear(self) -> None:
        """Forget the losses: an operator says so."""
        self._budget.clear()
