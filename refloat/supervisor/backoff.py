"""When to start a lost child again, and when to stop trying. Pure: time and chance are passed in."""

from collections import deque
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class BackoffPolicy:
    """Exponential delays. The first fault of a series is followed at once by a new start: whoever
    waits for the model should wait for the load only."""

    base_s: float = 0.5
    """Delay after the second fault of a series; it doubles from there."""
    max_s: float = 30.0
    jitter: float = 0.5
    """Share of a delay that is left to chance, so that several models do not load in step."""

    def delay_s(self, series: int, chance: float) -> float:
        """Seconds to wait after the `series`-th fault in a row (1 is the first).

        `chance` is a random number in [0, 1).
        """
        if series <= 1:
            return 0.0
        whole = min(self.max_s, self.base_s * 2.0 ** min(series - 2, 32))
        return whole * (1.0 - self.jitter * chance)


class CrashBudget:
    """Faults without progress between them: `limit` within `window_s` open the breaker.

    The window is counted in seconds *in service*, not by the wall: a load of a minute would else
    outlast any window, and a child that dies in every load would be started for ever.
    """

    def __init__(self, limit: int = 5, window_s: float = 60.0) -> None:
        self._limit = limit
        self._window_s = window_s
        self._faults: deque[float] = deque()
        self._series = 0
        self.served_s = 0.0
        """What those whose faults are charged here have served in all."""

    @property
    def series(self) -> int:
        """Faults in a row without progress, however old."""
        return self._series

    @property
    def is_spent(self) -> bool:
        """Whether the breaker is to open."""
        return len(self._faults) >= self._limit

    def charge(self, served_s: float) -> None:
        """A fault; `served_s` is what had been served until then (it never falls)."""
        self._series += 1
        self._faults.append(served_s)
        while self._faults and self._faults[0] < served_s - self._window_s:
            self._faults.popleft()

    def clear(self) -> None:
        """There was progress, or an operator says to forget."""
        self._faults.clear()
        self._series = 0
