"""Which entries of the cache running servers use: each holds a shared lock on the entry's record, which
the kernel frees with its process."""

import fcntl
import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

#: In the entry's folder; models that are none of the cache's have none and cannot be removed by it.
RECORD_FILE = "entry.json"


@contextmanager
def using(folder: Path | None) -> Generator[None]:
    """While within, the entry in this folder is in use. Where locks cannot be had nothing is said."""
    record = _open(folder)
    try:
        if record is not None:
            _try_lock(record, fcntl.LOCK_SH)
        yield
    finally:
        if record is not None:
            os.close(record)


def is_used(folder: Path) -> bool:
    """Whether a running process uses the entry in this folder."""
    record = _open(folder)
    if record is None:
        return False
    try:
        return not _try_lock(record, fcntl.LOCK_EX)
    finally:
        os.close(record)


def _open(folder: Path | None) -> int | None:
    if folder is None:
        return None
    try:
        return os.open(folder / RECORD_FILE, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None


def _try_lock(descriptor: int, kind: int) -> bool:
    """False only where another holds it; a file system without locks is nobody's use."""
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        pass
    return True
