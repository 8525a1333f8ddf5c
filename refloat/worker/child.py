"""What a process of ours does to itself at its start: it dies with its parent and before it.

For programs that run native code for the gateway (the worker, a conversion). Linux only.
"""

import ctypes
import faulthandler
import os
import signal
import sys
from pathlib import Path

_PR_SET_PDEATHSIG = 1
_PR_SET_NAME = 15
#: The kernel takes a worker before it takes the gateway.
_OOM_SCORE = 800


def settle(name: str, *, stdout_fd: int | None = None) -> bool:
    """Tie this process to its parent; false if the parent was gone before that was done.

    `stdout_fd`: where what native code prints on stdout shall go (default: stderr). Failing to raise
    the OOM score or to set the name is reported and borne.
    """
    parent = os.getppid()
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0) != 0:
        print(f"no parent-death signal: errno {ctypes.get_errno()}", file=sys.stderr)  # noqa: T201
    libc.prctl(_PR_SET_NAME, name.encode()[:15], 0, 0, 0)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal's ^C is for the gateway to handle
    faulthandler.enable(all_threads=True)
    faulthandler.register(signal.SIGUSR1, all_threads=True)
    os.dup2(2 if stdout_fd is None else stdout_fd, 1)
    try:
        Path("/proc/self/oom_score_adj").write_text(str(_OOM_SCORE))
    except OSError as error:
        print(f"oom_score_adj stays: {error}", file=sys.stderr)  # noqa: T201
    return os.getppid() == parent
