"""Waiting for a condition with a deadline: the only place where tests spend time."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

#: Ten times what is typical on a small machine: a deadline says "never", it does not measure.
DEFAULT_DEADLINE_S = 30.0


class NotInTimeError(AssertionError):
    """The condition did not come true before its deadline."""


def eventually(
    condition: Callable[[], T | None],
    *,
    deadline_s: float = DEFAULT_DEADLINE_S,
    every_s: float = 0.02,
    what: str = "the condition",
) -> T:
    """The first truthy value of `condition`. Raises `NotInTimeError` when none came in time."""
    end = time.monotonic() + deadline_s
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise NotInTimeError(f"{what}: not within {deadline_s:g} s (last: {value!r})")
        time.sleep(every_s)
