"""What `/proc` says of a process that is about to be killed: where each of its threads stands.

Only files that take none of the process's own locks are read (never `cmdline` or `maps`: on a process
stuck in the kernel they may block), and only for some milliseconds: this is done on the way to SIGKILL.
"""

import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

#: The kernel's stacks first needs a privilege; the others tell something without it.
_FILES = ("comm", "wchan", "stack")
_STATUS_FIELDS = ("State", "voluntary_ctxt_switches", "nonvoluntary_ctxt_switches", "SigQ")
_PROCESS_FIELDS = ("State", "VmPeak", "VmSize", "VmHWM", "VmRSS", "VmSwap", "Threads")
_MAX_THREADS = 256
_FILE_BYTES = 8192


class ProcessEvidence(NamedTuple):
    """A text for people, and what is not in it."""

    text: str
    missing: tuple[tuple[str, str], ...]


def read_process(
    pid: int,
    *,
    proc: Path = Path("/proc"),
    most_s: float = 0.005,
    clock: Callable[[], float] = time.monotonic,
) -> ProcessEvidence:
    """Never raises, never takes much longer than `most_s`."""
    end_s = clock() + most_s
    reader = _Reader(proc / str(pid))
    reader.status("status", _PROCESS_FIELDS)
    try:
        # Numeric order puts the main thread first.
        threads = sorted(int(entry.name) for entry in (proc / str(pid) / "task").iterdir())
    except (OSError, ValueError) as error:
        reader.miss("task", error)
        threads = []
    for count, thread in enumerate(threads):
        if count >= _MAX_THREADS or clock() > end_s:
            reader.missing["task"] = f"{len(threads) - count} of {len(threads)} threads not read"
            break
        reader.lines.append(f"\n--- thread {thread}")
        for name in _FILES:
            reader.file(f"task/{thread}/{name}", name)
        reader.status(f"task/{thread}/status", _STATUS_FIELDS)
    return ProcessEvidence("\n".join(reader.lines) + "\n", tuple(reader.missing.items()))


class _Reader:
    """Collects; every kind of file that cannot be read is put on record once."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.lines: list[str] = []
        self.missing: dict[str, str] = {}

    def file(self, path: str, name: str) -> None:
        text = self._read(path, name)
        if text:
            shown = text if "\n" not in text else "\n  " + text.replace("\n", "\n  ")
            self.lines.append(f"{name}: {shown}")

    def status(self, path: str, fields: tuple[str, ...]) -> None:
        for line in self._read(path, "status").splitlines():
            if line.partition(":")[0] in fields:
                self.lines.append(line.replace("\t", " "))

    def miss(self, name: str, error: Exception) -> None:
        why = error.strerror if isinstance(error, OSError) else None
        self.missing.setdefault(name, why or str(error))

    def _read(self, path: str, name: str) -> str:
        try:
            with (self._folder / path).open("rb") as file:
                return file.read(_FILE_BYTES).decode("utf-8", errors="replace").rstrip("\n")
        except OSError as error:
            self.miss(name, error)
            return ""
