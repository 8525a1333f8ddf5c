"""What prep does to its own process at its start: it dies with its parent. Linux only."""

import ctypes
import faulthandler
import os
import signal
import sys
from pathlib import Path

_PR_SET_PDEATHSIG = 1
_PR_SET_NAME = 15
#: The kernel takes prep before a worker and both before the gateway.
_OOM_SCORE = 900


def settle() -> bool:
    """Tie this process to its parent; false if the parent was gone before that was done."""
    parent = os.getppid()
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0) != 0:
        report(f"no parent-death signal: errno {ctypes.get_errno()}")
    libc.prctl(_PR_SET_NAME, b"refloat-prep", 0, 0, 0)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal's ^C is for the gateway to handle
    faulthandler.enable(all_threads=True)
    faulthandler.register(signal.SIGUSR1, all_threads=True)
    os.dup2(2, 1)
    try:
        Path("/proc/self/oom_score_adj").write_text(str(_OOM_SCORE))
    except OSError as error:
        report(f"oom_score_adj stays: {error}")
    return os.getppid() == parent


def report(text: str) -> None:
    """A line on stderr, which is prep's log."""
    sys.stderr.write(f"prep: {text}\n")
    sys.stderr.flush()
