"""One child process: exec-spawned, its output captured, its death seen, killed and reaped.

The only user of `subprocess` in the gateway. It knows nothing of messages; the socket that it hands
out is read by `wire/link.py`. There is no thread here: death is a pidfd that becomes readable.
"""

import asyncio
import contextlib
import os
import re
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence

from refloat.observe.log import get_logger
from refloat.observe.process_stat import ProcessStat, read_process_stat
from refloat.supervisor.stderr_ring import StderrRing
from refloat.wire.progress import ProgressReader

_log = get_logger(__name__)

_READ_BYTES = 64 * 1024
_SECRET_WORDS = frozenset(
    {"KEY", "APIKEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "CREDENTIAL", "CREDENTIALS"}
)


def child_environment(parent: Mapping[str, str]) -> dict[str, str]:
    """The gateway's environment for a child that runs hostile input: nothing that looks a secret."""
    kept = {name: value for name, value in parent.items() if not _is_secret(name)}
    return kept | {"PYTHONUNBUFFERED": "1", "PYTHONSAFEPATH": "1"}


def _is_secret(name: str) -> bool:
    return not _SECRET_WORDS.isdisjoint(re.split(r"[_\W]+", name.upper()))


class ChildProcess:
    """A process that was started; `on_exit` is called once, from the loop, when it has ended.

    Raises `OSError` from the constructor if it cannot be started, with nothing left open.
    """

    def __init__(
        self, command: Sequence[str], *, with_progress: bool, on_exit: Callable[[], None]
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._on_exit = on_exit
        self._ring = StderrRing()
        self.was_killed = False
        self.killed_s: float | None = None
        """`time.monotonic()` of the first SIGKILL that found it alive."""
        with contextlib.ExitStack() as undo:
            self.socket, theirs = socket.socketpair()
            undo.callback(self.socket.close)
            self._stderr_fd, their_stderr = os.pipe()
            undo.callback(os.close, self._stderr_fd)
            self.progress = ProgressReader() if with_progress else None
            if self.progress is not None:
                undo.callback(self.progress.close)
            with theirs:
                try:
                    self._popen = self._start(command, theirs.fileno(), their_stderr)
                finally:
                    os.close(their_stderr)
            undo.pop_all()
        self.pid = self._popen.pid
        self._pidfd = os.pidfd_open(self.pid)
        os.set_blocking(self._stderr_fd, False)
        self._loop.add_reader(self._stderr_fd, self._read_stderr)
        self._loop.add_reader(self._pidfd, self._ended)
        self._closed = False

    def _start(
        self, command: Sequence[str], link_fd: int, stderr_fd: int
    ) -> subprocess.Popen[bytes]:
        argv = [*command, "--link-fd", str(link_fd)]
        pass_fds = [link_fd]
        if self.progress is not None:
            argv += ["--progress-fd", str(self.progress.fd)]
            pass_fds.append(self.progress.fd)
        return subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=stderr_fd,
            stderr=stderr_fd,
            pass_fds=pass_fds,
            env=child_environment(os.environ),
            start_new_session=True,
        )

    def exit_code(self) -> int | None:
        """Its exit code (negative: a signal) once it has ended, reaped or not; `None` before."""
        if self._popen.returncode is not None:
            return self._popen.returncode
        try:
            ended = os.waitid(os.P_PIDFD, self._pidfd, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return self._popen.poll()  # somebody else has reaped it; `subprocess` says 0 then
        if ended is None:
            return None
        return ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status

    def has_exited(self) -> bool:
        """Whether it has ended, reaped or not."""
        return self.exit_code() is not None

    def terminate(self) -> None:
        """SIGTERM to the process alone; one that has ended ignores it."""
        self._signal(signal.SIGTERM)

    def ask_for_stacks(self) -> None:
        """Have a hung child write its Python stacks to stderr (`faulthandler` on SIGUSR1). A
        program that does not listen for it is ended by it."""
        self._signal(signal.SIGUSR1)

    def kill(self) -> None:
        """SIGKILL the process and every process of its session. Safe until it is reaped."""
        if self._popen.returncode is not None:
            return
        if not self.has_exited() and not self.stat().is_exiting:
            self.was_killed = True
            if self.killed_s is None:
                self.killed_s = time.monotonic()
        # The group outlives its leader until that is reaped, so this cannot meet a stranger.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)
        self._signal(signal.SIGKILL)

    def reap(self) -> int | None:
        """Have the kernel forget it: its exit code, or `None` while it has not ended."""
        return self._popen.poll()

    def stat(self) -> ProcessStat:
        """How the kernel says it stands."""
        return read_process_stat(self.pid)

    def last_stderr(self) -> str:
        """The newest part of what it wrote to stdout and stderr."""
        return self._ring.text()

    def close(self) -> None:
        """Release descriptors (not the socket). Idempotent; no callback follows."""
        if self._closed:
            return
        self._closed = True
        self._read_stderr()
        self._loop.remove_reader(self._stderr_fd)
        self._loop.remove_reader(self._pidfd)
        os.close(self._stderr_fd)
        os.close(self._pidfd)
        if self.progress is not None:
            self.progress.close()

    def _signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._pidfd, number)

    def _ended(self) -> None:
        self._loop.remove_reader(self._pidfd)
        self._read_stderr()
        self._on_exit()

    def _read_stderr(self) -> None:
        try:
            data = os.read(self._stderr_fd, _READ_BYTES)
        except BlockingIOError:
            return
        if not data:
            self._loop.remove_reader(self._stderr_fd)
            return
        for line in self._ring.feed(data):
            _log.debug("child_output", pid=self.pid, line=line)
