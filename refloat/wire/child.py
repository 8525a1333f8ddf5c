"""What a child of ours does to itself at its start: it dies with its parent and before it.

For every program that runs native or hostile things for the gateway: worker, prep, conversion. Linux
only.
"""

import ctypes
import faulthandler
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1
_PR_SET_NAME = 15
#: The kernel takes prep before a worker, and both before the gateway.
WORKER_OOM_SCORE = 800
PREP_OOM_SCORE = 900


def settle(name: str, *, oom_score: int = WORKER_OOM_SCORE, stdout_fd: int | None = None) -> bool:
    """Tie this process to its parent; false if the parent was gone before that was done.

    `stdout_fd`: where what native code prints on stdout shall go (default: stderr). Failing to raise
    the OOM score or to set the name is reported and borne.
    """
    parent = os.getppid()
    import_less()
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0) != 0:
        report(name, f"no parent-death signal: errno {ctypes.get_errno()}")
    libc.prctl(_PR_SET_NAME, name.encode()[:15], 0, 0, 0)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal's ^C is for the gateway to handle
    faulthandler.enable(all_threads=True)
    faulthandler.register(signal.SIGUSR1, all_threads=True)
    os.dup2(2 if stdout_fd is None else stdout_fd, 1)
    try:
        with open("/proc/self/oom_score_adj", "w", encoding="ascii") as score:
            score.write(str(oom_score))
    except OSError as error:
        report(name, f"oom_score_adj stays: {error}")
    return os.getppid() == parent


def import_less() -> None:
    """Let imports do without what nothing of ours uses, in each child that is started because another
    was lost. The model converter, with the telemetry client that comes along, is a third of what
    `import openvino` costs; the threads that numpy's BLAS starts for each core are a third of numpy's;
    typing's extensions, which msgspec takes where they are, a sixth of the worker's own modules."""
    for name in ("openvino.tools.ovc", "typing_extensions"):
        sys.modules[name] = None  # pyright: ignore[reportArgumentType] # means "not there"
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


def report(program: str, text: str) -> None:
    """A line on stderr, which is a child's log."""
    sys.stderr.write(f"{program}: {text}\n")
    sys.stderr.flush()
