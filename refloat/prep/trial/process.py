"""One throw-away child as prep holds it: asked, watched against a clock, killed. Decides nothing."""

import math
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from refloat.observe.process_stat import read_process_stat
from refloat.prep.trial.messages import Compiled, Job
from refloat.wire.frame import FrameError
from refloat.wire.messages import Hello
from refloat.wire.pipe import EndOfLink, LinkClosedError, Pipe
from refloat.wire.prep_messages import Guided, PrepRefused

Answer = Guided | PrepRefused | Compiled
_FromChild = Hello | Answer

COMMAND = (sys.executable, "-m", "refloat.prep.trial")
_LOOK_S = 0.02
#: Processor time; most jobs are done by then.
_LONG_S = 0.2
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


class ChildGoneError(Exception):
    """It has ended by itself: a crash, or memory that it was not given."""


class TooExpensiveError(Exception):
    """Time is up."""

    def __init__(self, *, by_clock: bool) -> None:
        """`by_clock`: the machine gave it little of the processor, so nothing is known of the job."""
        super().__init__()
        self.by_clock = by_clock


class TrialProcess:
    """Spawned at once; ready once it has said so. One job at a time."""

    def __init__(self, arguments: Sequence[str], *, command: Sequence[str] = COMMAND) -> None:
        ours, theirs = socket.socketpair()
        try:
            self._process = subprocess.Popen(
                [*command, "--link-fd", str(theirs.fileno()), *arguments],
                pass_fds=(theirs.fileno(),),
                stdin=subprocess.DEVNULL,
                # few arenas: what threads reserve counts against its limit of address space
                env={**os.environ, "MALLOC_ARENA_MAX": "2"},
            )
        finally:
            theirs.close()
        self._pipe: Pipe[_FromChild] = Pipe(ours.detach(), _FromChild)
        self._has_said_so = False

    @property
    def pid(self) -> int:
        """Of the child."""
        return self._process.pid

    def wait_ready(self, limit_s: float) -> None:
        """Raises `ChildGoneError`, and `TooExpensiveError` if it does not come up in time."""
        if not self._has_said_so:
            self._heard(time.monotonic() + limit_s)
            self._has_said_so = True

    def ask(
        self, job: Job, *, cpu_s: float, wall_s: float, takes_long: Callable[[], None]
    ) -> Answer:
        """Its answer; `takes_long` is called in between if it is long in coming. Raises
        `ChildGoneError` and `TooExpensiveError`; it is of no use then."""
        until_s = time.monotonic() + wall_s
        cpu_from_s = self._cpu_s()
        try:
            self._pipe.send(job)
        except LinkClosedError:
            raise ChildGoneError from None
        try:
            heard = self._heard(until_s, cpu_until_s=cpu_from_s + _LONG_S)
        except TooExpensiveError as error:
            if error.by_clock:
                raise
            takes_long()
            heard = self._heard(until_s, cpu_until_s=cpu_from_s + cpu_s)
        if isinstance(heard, Hello):
            raise ChildGoneError
        return heard

    def resident_bytes(self) -> int:
        """Memory that it has; 0 if it is gone."""
        try:
            return int(Path(f"/proc/{self.pid}/statm").read_text().split()[1]) * _PAGE_BYTES
        except (OSError, IndexError):
            return 0

    def kill(self) -> None:
        """End it, whatever it is doing, and reap it."""
        self._process.kill()
        self._process.wait()
        self._pipe.close()

    def _heard(self, until_s: float, *, cpu_until_s: float = math.inf) -> _FromChild:
        while True:
            try:
                message = self._pipe.recv(_LOOK_S)
            except FrameError:
                raise ChildGoneError from None
            if isinstance(message, EndOfLink):
                raise ChildGoneError
            if message is not None:
                return message
            if self._cpu_s() > cpu_until_s:
                raise TooExpensiveError(by_clock=False)
            if time.monotonic() > until_s:
                raise TooExpensiveError(by_clock=True)

    def _cpu_s(self) -> float:
        return read_process_stat(self.pid).cpu_s or 0.0
