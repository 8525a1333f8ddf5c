"""How a process stands, as the kernel has it in `/proc/PID/stat` (proc_pid_stat(5))."""

import os
from pathlib import Path
from typing import NamedTuple

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_PF_EXITING = 0x4
#: More than the kernel ever writes into this file.
_MOST_BYTES = 4096


class ProcessStat(NamedTuple):
    """One reading."""

    cpu_s: float | None
    """Processor seconds used in user and system mode; `None`: the process is gone."""
    is_stopped: bool = False
    """Somebody has stopped it (SIGSTOP): it can do nothing."""
    is_exiting: bool = False
    """It is on its way out already: the kernel may take a while to take it down."""
    has_ended: bool = False
    """Only its exit code is still there (a zombie)."""
    started: int = 0
    """Ticks of the clock since the machine's start: with the pid, which process it is."""


GONE = ProcessStat(None)


def read_process_stat(pid: int, root: Path | str = "") -> ProcessStat:
    """Cheap enough for every look at every child; `GONE` once the process was reaped."""
    try:
        fd = os.open(f"{root}/proc/{pid}/stat", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return GONE
    try:
        text = os.read(fd, _MOST_BYTES)
    except OSError:
        return GONE
    finally:
        os.close(fd)
    # The name stands in brackets, and may hold any of them.
    state, *fields = text[text.rindex(b")") + 2 :].split(maxsplit=20)
    return ProcessStat(
        cpu_s=(int(fields[10]) + int(fields[11])) / _TICKS_PER_S,
        is_stopped=state == b"T",
        is_exiting=bool(int(fields[5]) & _PF_EXITING),
        has_ended=state in (b"Z", b"X"),
        started=int(fields[18]),
    )
