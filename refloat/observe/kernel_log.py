"""The kernel log, followed: `/dev/kmsg` as it grows, or a text file that a test or a forwarder writes.

No privilege is needed that a system does not give: a log that cannot be read is a fact on record
(`trouble`), and nothing else changes. Lines of no interest are dropped at once (`kernel_lines.py`).
"""

import asyncio
import os
import stat
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from refloat.observe.kernel_lines import KernelEvent, Subject, concerns, parse_kernel_line
from refloat.observe.log import get_logger

_log = get_logger(__name__)

KMSG = Path("/dev/kmsg")
_KEPT_EVENTS = 500
_RECORD_BYTES = 8192
#: At one go; the loop has other things to do than a flood of kernel messages.
_RECORDS_AT_A_TIME = 256
#: A regular file cannot be waited for.
_FILE_POLL_S = 0.05
#: The link's target in the first pid namespace of a machine (PROC_PID_INIT_INO).
_FIRST_NAMESPACE = "pid:[4026531836]"


class SeenEvent(NamedTuple):
    """An event and when this process read it (`time.monotonic()`)."""

    at_s: float
    event: KernelEvent


class Following(NamedTuple):
    """A process of ours, and whom to tell what the kernel says of it."""

    subject: Subject
    on_event: Callable[[KernelEvent], None]


class KernelLog:
    """One for a gateway. `start` and `close` on the event loop; an unreadable one is silent."""

    def __init__(
        self,
        source: Path = KMSG,
        *,
        knows_pids: bool | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`knows_pids`: whether the kernel's process ids are ours; `None`: find out."""
        self.source = source
        self.trouble: str | None = "the kernel log is not followed yet"
        """Why nothing can be read; `None`: it is followed."""
        self.knows_pids = in_first_pid_namespace() if knows_pids is None else knows_pids
        self._clock = clock
        self._fd: int | None = None
        self._is_kmsg = False
        self._rest = b""
        self._timer: asyncio.TimerHandle | None = None
        self._events: deque[SeenEvent] = deque(maxlen=_KEPT_EVENTS)
        self._followed: list[Following] = []

    def start(self) -> None:
        """Follow the log from its present end on."""
        try:
            fd = os.open(self.source, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as error:
            self._give_up(f"{self.source}: {error.strerror}")
            return
        self._fd = fd
        self.trouble = None
        try:
            self._is_kmsg = stat.S_ISCHR(os.fstat(fd).st_mode)
            os.lseek(fd, 0, os.SEEK_END)
            if self._is_kmsg:
                asyncio.get_running_loop().add_reader(fd, self.drain)
            else:
                self._poll()
        except OSError as error:
            self._give_up(f"{self.source}: {error.strerror}")

    def close(self) -> None:
        """Stop following. Idempotent."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        fd, self._fd = self._fd, None
        if fd is not None:
            if self._is_kmsg:
                asyncio.get_running_loop().remove_reader(fd)
            os.close(fd)
            self.trouble = "the kernel log is not followed any more"

    def follow(self, subject: Subject, on_event: Callable[[KernelEvent], None]) -> Following:
        """Be told of events that name `subject`, until `unfollow`."""
        following = Following(subject, on_event)
        self._followed.append(following)
        return following

    def unfollow(self, following: Following) -> None:
        """The process is gone. Unknown ones do nothing."""
        self._followed = [known for known in self._followed if known is not following]

    def since(self, at_s: float) -> list[KernelEvent]:
        """Events read at or after `at_s`, oldest first."""
        return [event for seen_s, event in self._events if seen_s >= at_s]

    def about(self, subject: Subject, since_s: float) -> list[KernelEvent]:
        """Those of them that name a process."""
        return [e for e in self.since(since_s) if concerns(e, subject, knows_pids=self.knows_pids)]

    def drain(self) -> None:
        """Read what there is, without waiting. Also to be called before a judgement."""
        if self._fd is None:
            return
        for _ in range(_RECORDS_AT_A_TIME):
            try:
                data = os.read(self._fd, _RECORD_BYTES)
            except BlockingIOError:
                return
            except BrokenPipeError:
                continue  # the ring went round before we read: the next read is at its oldest
            except OSError as error:
                self._give_up(f"{self.source}: {error.strerror}")
                return
            if not data:
                return
            for line in self._lines(data):
                self._take(line)

    def _lines(self, data: bytes) -> list[str]:
        if self._is_kmsg:  # one record: `prio,seq,time,flags;text`, then lines with its dictionary
            text = data.split(b"\n", 1)[0].partition(b";")[2]
            return [text.decode("utf-8", errors="replace")]
        *whole, self._rest = (self._rest + data).split(b"\n")
        self._rest = self._rest[-_RECORD_BYTES:]
        return [line.decode("utf-8", errors="replace") for line in whole]

    def _take(self, line: str) -> None:
        event = parse_kernel_line(line)
        if event is None:
            return
        self._events.append(SeenEvent(self._clock(), event))
        named = [
            following
            for following in self._followed
            if concerns(event, following.subject, knows_pids=self.knows_pids)
        ]
        if self.knows_pids or len(named) == 1:  # a name that fits several convicts none of them
            for following in named:
                following.on_event(event)

    def _poll(self) -> None:
        self.drain()
        if self._fd is not None:
            self._timer = asyncio.get_running_loop().call_later(_FILE_POLL_S, self._poll)

    def _give_up(self, why: str) -> None:
        self.close()
        self.trouble = why
        _log.info("kernel_log_unreadable", reason=why)


def in_first_pid_namespace(proc: Path = Path("/proc")) -> bool:
    """Whether the pids that the kernel logs are those that this process sees."""
    try:
        return os.readlink(proc / "self" / "ns" / "pid") == _FIRST_NAMESPACE
    except OSError:
        return False
