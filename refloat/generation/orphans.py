"""Whether, and for how long, a generation goes on without its client. Pure.

The rule is that it does not. It does where its client has said that it may come back, or where a key
grants that answers are finished for nobody's eyes; and never in the way of somebody who waits, unless
that was granted.
"""

from typing import NamedTuple

from refloat.generation.request import Retention

#: Of one tenant at a time, beside those that were granted to go on to their end.
MAX_ORPHANS = 8


class Windows(NamedTuple):
    """Seconds, from the settings."""

    reconnect_s: float = 0.0
    """For any stream whose client is gone."""
    retry_s: float = 2.0
    """For an answer that an SDK has seen nothing of: it tries again by itself."""
    replay_s: float = 60.0
    """After its end; and for one with an idempotency key, before that, too."""


class Stay(NamedTuple):
    """Leave to go on."""

    for_s: float | None
    """`None`: to its end."""
    yields: bool
    """Ends as soon as somebody else waits for a place."""


def is_kept(retention: Retention | None, windows: Windows) -> bool:
    """Whether an answer is recorded at all."""
    if retention is None:
        return False
    return is_findable(retention, windows) or (
        retention.sdk_retry is not None and windows.retry_s > 0
    )


def is_findable(retention: Retention, windows: Windows) -> bool:
    """Whether its stream can be asked for by its id."""
    by_window = retention.stream and windows.reconnect_s > 0 and not retention.cancel
    by_word = retention.finish_quota > 0 or retention.idempotency_key is not None
    return by_window or by_word


def stay_of(
    retention: Retention, windows: Windows, *, has_begun: bool, orphans: int, finishing: int
) -> Stay | None:
    """What becomes of a running generation whose last reader left; `None`: it is stopped.

    `has_begun`: its client has seen some of it. `orphans` and `finishing`: those of its tenant that
    go on already, with and without a limit of time.
    """
    if retention.cancel:
        return None
    if finishing < retention.finish_quota:
        return Stay(None, yields=False)
    if orphans >= MAX_ORPHANS:
        return None
    if retention.stream and windows.reconnect_s > 0:
        return Stay(windows.reconnect_s, yields=False)
    if retention.idempotency_key is not None and windows.replay_s > 0:
        return Stay(windows.replay_s, yields=True)
    if retention.sdk_retry is not None and not has_begun and windows.retry_s > 0:
        return Stay(windows.retry_s, yields=True)
    return None


def kept_after_end_s(retention: Retention, windows: Windows, *, is_delivered: bool) -> float:
    """How long an answer can be had again once it is complete."""
    if is_findable(retention, windows):
        return windows.replay_s
    return 0.0 if is_delivered else windows.retry_s
