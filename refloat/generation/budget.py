"""Bytes held for callers (bodies, journals, unread events), counted against one limit.

Counts what it is told; nothing here allocates or frees. New work is refused when the limit is
reached, work under way never is: it only makes the next caller be refused.
"""

from types import TracebackType

from prometheus_client import Gauge

from refloat.wire.problem import Problem, ProblemKind

#: Told to a caller whom the budget turned away.
RETRY_AFTER_S = 2.0


class Lease:
    """Bytes one owner holds. Closing gives all of them back, once."""

    __slots__ = ("_budget", "_closed", "held_bytes")

    def __init__(self, budget: "ByteBudget", held_bytes: int) -> None:
        self._budget = budget
        self._closed = False
        self.held_bytes = held_bytes

    def adjust(self, delta_bytes: int) -> None:
        """Count more, or less, for work under way; never refused. After `close` nothing is counted."""
        if not self._closed:
            self.held_bytes += delta_bytes
            self._budget.held_bytes += delta_bytes

    def close(self) -> None:
        """Give everything back. Idempotent."""
        if not self._closed:
            self._closed = True
            self._budget.held_bytes -= self.held_bytes
            self.held_bytes = 0

    def __enter__(self) -> "Lease":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


class ByteBudget:
    """One limit for one gateway. One writer: the event loop's thread."""

    def __init__(self, limit_bytes: int, gauge: Gauge | None = None) -> None:
        """`gauge` is read from here at every scrape."""
        if limit_bytes < 1:
            raise ValueError(f"a budget of {limit_bytes} bytes admits nothing")
        self.limit_bytes = limit_bytes
        self.refusal: str | None = None
        """Why nothing new is taken whatever is left, for people; `None`: it is."""
        self.held_bytes = 0
        if gauge is not None:
            gauge.set_function(lambda: float(self.held_bytes))

    def refuse(self, why: str | None) -> None:
        """Take nothing new from now on, or (`None`) take it again."""
        self.refusal = why

    def reserve(self, n: int) -> Lease:
        """Hold `n` bytes. Raises `ProblemError` (`OVERLOADED`) if the limit would be passed."""
        if n < 0:
            raise ValueError(f"{n} bytes cannot be held")
        why = self.refusal
        if why is None and self.held_bytes + n > self.limit_bytes:
            why = "the server holds as much as its memory budget allows"
        if why is not None:
            raise Problem(
                kind=ProblemKind.OVERLOADED,
                message=f"Nothing new is taken now: {why}. Try again shortly.",
                retry_after_s=RETRY_AFTER_S,
            ).raised()
        return self.hold(n)

    def hold(self, n: int) -> Lease:
        """Count `n` bytes for work that was accepted already; never refused."""
        self.held_bytes += n
        return Lease(self, n)
