"""How fast places become free in one model's line, as measured, and when to come back. Pure.

Times are passed in, as readings of one monotonic clock.
"""

from collections import deque

#: Departures before that say nothing of now.
WINDOW_S = 60.0
_REMEMBERED = 512
#: What a caller is told at least and at most.
LEAST_S, MOST_S = 1.0, 60.0
#: Whoever was turned away comes back when so much of the line is gone: at its end the workers would
#: have run out of work while all of them still wait.
_SHARE = 0.5


class DrainRate:
    """Remembers when requests left."""

    def __init__(self, unknown_s: float) -> None:
        """`unknown_s`: told while nothing has left yet."""
        self._unknown_s = unknown_s
        self._left_s: deque[float] = deque(maxlen=_REMEMBERED)

    def left(self, now_s: float, count: int = 1) -> None:
        """So many generations ended, whichever way: their places are free."""
        self._left_s.extend([now_s] * min(count, _REMEMBERED))

    def per_s(self, now_s: float) -> float | None:
        """Departures a second of late; falls while nothing leaves. `None`: unknown."""
        times = self._left_s
        while times and times[0] < now_s - WINDOW_S:
            times.popleft()
        if not times:
            return None
        # Half a second at least: a burst of which the first is just gone is no rate.
        return len(times) / max(now_s - times[0], 0.5)

    def retry_after_s(self, waiting: int, now_s: float) -> float:
        """When it is worth trying again, for somebody who was turned away by a line of `waiting`."""
        rate = self.per_s(now_s)
        if rate is None:
            return self._unknown_s
        return min(max(_SHARE * waiting / rate, LEAST_S), MOST_S)
