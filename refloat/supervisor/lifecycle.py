"""The life of a worker slot, as a table. Everything that affects its transitions is in this file.

Pure: no clock, no process, no I/O. The supervisor feeds events, performs the effects, and publishes
the state. A pair that the table lacks raises `IllegalTransitionError` and changes nothing.
"""

from enum import StrEnum


class WorkerState(StrEnum):
    """Where a worker slot stands."""

    SPAWNING = "spawning"
    LOADING = "loading"
    PROBING = "probing"
    READY = "ready"
    SUSPECT = "suspect"
    """Older than half its budget: no longer ready, not yet condemned."""
    DRAINING = "draining"
    EXITED = "exited"
    """Gone, or being killed and reaped; nothing new yet."""
    BACKOFF = "backoff"
    FAILED = "failed"
    STUCK = "stuck"
    """Could not be reaped: its device is not touched again."""
