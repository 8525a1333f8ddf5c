"""Bounds on code that is not ours (chat templates): wall time and memory, in this very process.

They stop honest mistakes and plain bombs. What escapes them (a long call inside C) is ended from
outside: prep is disposable, and the gateway waits for no answer beyond its deadline.
"""

import os
import resource
import signal
from collections.abc import Callable, Generator
from contextlib import contextmanager
from types import FrameType
from typing import TypeVar

_T = TypeVar("_T")

#: After the first alarm come more, in case the exception was raised where Python drops it.
_REPEAT_S = 0.05


class TimeLimitError(BaseException):
    """Time is up. No `Exception`, so that no handler between here and the limit swallows it."""


class _Alarm:
    """Whether an alarm that comes is still wanted."""

    is_set = False


def within_time(seconds: float, work: Callable[[], _T]) -> _T:
    """What `work` returns. Raises `TimeLimitError` once `seconds` are over, and never after that.
    Main thread only; no limit within another.

    No context manager: Python runs handlers where it calls, so that an alarm could come between the
    end of the block and the first line of `__exit__`, which would not be run then, and others after
    it, wherever the program is. Between `work` and the first line of `finally` nothing is called.
    """
    old_handler = signal.signal(signal.SIGALRM, _raise)
    old_delay_s = old_interval_s = 0.0
    try:
        _Alarm.is_set = True
        old_delay_s, old_interval_s = signal.setitimer(signal.ITIMER_REAL, seconds, _REPEAT_S)
        return work()
    finally:
        _Alarm.is_set = False
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old_handler)
        if old_delay_s:
            signal.setitimer(signal.ITIMER_REAL, old_delay_s, old_interval_s)


def _raise(_number: int, _frame: FrameType | None) -> None:
    if _Alarm.is_set:
        raise TimeLimitError


@contextmanager
def memory_limit(extra_bytes: int) -> Generator[None]:
    """Let the process grow by no more than this inside the block: beyond it is a `MemoryError`."""
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    wanted = _size_bytes() + extra_bytes
    for bound in (soft, hard):
        if bound != resource.RLIM_INFINITY:
            wanted = min(wanted, bound)
    resource.setrlimit(resource.RLIMIT_AS, (wanted, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def _size_bytes() -> int:
    with open("/proc/self/statm", "rb") as pages:
        return int(pages.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
