"""Ends answers that would not end by themselves: too long by the clock, or in a loop. Pure.

Such an answer is complete as it stands, with finish_reason `length`; which rule it was is told beside.
"""

from collections.abc import Sequence
from enum import StrEnum

from refloat.generation.repetition import LoopGuard


class Cut(StrEnum):
    """Why an answer was ended; `stop_reason` in the response."""

    TIME = "max_generation_s"
    """It took longer from its first token on than the model's limit."""
    LOOP = "repetition"
    """It said one phrase over and over."""


class RunawayRules:
    """For one answer. The clock starts with its first token and runs while it waits to be resumed."""

    __slots__ = ("_ends_s", "_guard", "_limit_s")

    def __init__(self, limit_s: float | None, loop_tokens: int) -> None:
        """`None` and 0 switch a rule off."""
        self._limit_s = limit_s
        self._ends_s: float | None = None
        self._guard = LoopGuard(loop_tokens) if loop_tokens else None

    def judge(self, emitted: Sequence[int], now_s: float) -> Cut | None:
        """What ends the answer now that it has these tokens; `None`: nothing."""
        if self._limit_s is not None:
            if self._ends_s is None:
                self._ends_s = now_s + self._limit_s
            elif now_s >= self._ends_s:
                return Cut.TIME
        if self._guard is not None and self._guard.is_looping(emitted):
            return Cut.LOOP
        return None
