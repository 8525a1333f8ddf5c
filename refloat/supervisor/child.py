"""A child as its slot sees it: one process, its link and its progress page, under one worker id.

Reports three things to the slot: a message, the end of the link, the end of the process. The last is
reported only after everything that the child had still said.
"""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from refloat.supervisor.process import ChildProcess
from refloat.wire.link import Link, LinkEnd
from refloat.wire.progress import Progress

_worker_ids = itertools.count(1)


def next_worker_id() -> int:
    """An id that no child of this gateway has had."""
    return next(_worker_ids)


@dataclass(frozen=True, slots=True)
class ChildCommand:
    """How a program is started, and what it says."""

    argv: tuple[str, ...]
    """Without the descriptors, which are appended."""
    incoming: Any
    """The union of messages that it may send."""
    with_progress: bool
    max_pending_bytes: int


class Child:
    """A process and its link. Raises `OSError` from the constructor if it cannot be started."""

    def __init__(
        self,
        worker_id: int,
        command: ChildCommand,
        *,
        on_message: Callable[["Child", Any], None],
        on_end: Callable[["Child", LinkEnd, str], None],
        on_exit: Callable[["Child"], None],
    ) -> None:
        self.worker_id = worker_id
        self._on_exit = on_exit
        self.process = self._start(command.argv, with_progress=command.with_progress)
        self.link: Link[Any] = Link(
            self.process.socket,
            command.incoming,
            on_message=lambda message: on_message(self, message),
            on_end=lambda end, detail: on_end(self, end, detail),
            max_pending_bytes=command.max_pending_bytes,
        )

    def _start(self, argv: Sequence[str], *, with_progress: bool) -> ChildProcess:
        return ChildProcess(argv, with_progress=with_progress, on_exit=self._exited)

    @property
    def pid(self) -> int:
        """Of the process, valid until it is reaped."""
        return self.process.pid

    def send(self, message: msgspec.Struct) -> None:
        """Never blocks; ignored once the link has ended."""
        self.link.send(message)

    def progress(self) -> Progress | None:
        """The page as it stands. Raises `ValueError` for a page that was scribbled on."""
        page = self.process.progress
        return None if page is None else page.read()

    def has_unread(self) -> bool:
        """Whether it has sent what was not read yet."""
        return self.link.has_unread()

    def close(self) -> None:
        """Release everything; the process, if it still lives, is no longer watched."""
        self.link.close()
        self.process.close()

    def _exited(self) -> None:
        self.link.drain()
        self._on_exit(self)
