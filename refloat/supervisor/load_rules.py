"""Whether a load may begin, must wait, or is refused: the rules of the gate. Pure.

First come, first served; memory that an earlier load has reserved and not yet taken is not free. What
a load needs beyond its cache is never bargained with, the cache is where less may do.
"""

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from refloat.observe.host_memory import HostMemory
from refloat.supervisor.load_need import LoadNeed, in_gb

#: Left to everybody else.
_HEADROOM_BYTES = 128 << 20


class Reservation(msgspec.Struct, frozen=True):
    """One load that was let in or waits, as the servers of a host tell each other of it."""

    pid: int
    """Of the worker."""
    started: int
    """The kernel's start time of that process: a pid alone can be somebody else's by now."""
    model: str
    host_bytes: int
    device: str
    device_bytes: int
    is_granted: bool
    seen_s: float
    """Monotonic time at which its server last asked for it."""


class Figures(NamedTuple):
    """What there is."""

    host: HostMemory
    device_free: int | None
    """Free on the device of the load in question; `None`: it cannot be read."""
    device_limit: int | None = None


class Granted(NamedTuple):
    """The load may begin."""

    host_bytes: int
    device_bytes: int
    cache_bytes: int
    """Of these; less than was wanted where more is not free."""


class Waiting(NamedTuple):
    """Not yet."""

    reason: str


class Refused(NamedTuple):
    """Not unless something else on the machine ends."""

    reason: str
    is_hopeless: bool = False
    """Not even then."""


Answer = Granted | Waiting | Refused


def decide(
    need: LoadNeed,
    device: str,
    before: Sequence[Reservation],
    figures: Figures,
    resident: Sequence[int],
) -> Answer:
    """Judge a load. `before` are the loads under way and those that came earlier; `resident` is what
    each of them has taken already (and is so no longer in `figures`)."""
    loading = [entry for entry in before if entry.is_granted]
    host_free = figures.host.available - _HEADROOM_BYTES
    host_left = host_free - sum(
        max(0, entry.host_bytes - taken)
        for entry, taken in zip(before, resident, strict=True)
        if entry.is_granted
    )
    device_left = figures.device_free
    if device_left is not None:
        device_left -= sum(entry.device_bytes for entry in loading if entry.device == device)
    if hopeless := _hopeless(need, figures):
        return Refused(hopeless, is_hopeless=True)
    if len(loading) < len(before):
        first = next(entry for entry in before if not entry.is_granted)
        return Waiting(f"waits for another load: that of {first.model!r} comes first")
    granted = _fit(need, host_left, device_left)
    if granted is None and loading:
        return Waiting(
            f"waits for memory: it {_figures(need, host_left, device_left)} beside the load of "
            f"{loading[0].model!r}"
        )
    if loading and granted is not None and granted.cache_bytes < need.cache_bytes:
        return Waiting(f"waits for another load: that of {loading[0].model!r} takes memory now")
    return granted or Refused(_figures(need, host_left, device_left))


def _hopeless(need: LoadNeed, figures: Figures) -> str | None:
    """Why it could not be loaded even if it were alone on the machine."""
    host_need, device_need = _least(need)
    if host_need > figures.host.limit:
        return (
            f"needs {in_gb(host_need)} of host memory, {in_gb(figures.host.limit)} is all there is"
        )
    if figures.device_limit is not None and device_need > figures.device_limit:
        return (
            f"needs {in_gb(device_need)} of device memory, "
            f"{in_gb(figures.device_limit)} is all there is"
        )
    return None


def _least(need: LoadNeed) -> tuple[int, int]:
    on_device = need.least_cache_bytes if need.is_cache_on_device else 0
    on_host = need.least_cache_bytes - on_device
    return need.host_bytes + on_host, need.device_bytes + on_device


def _fit(need: LoadNeed, host_left: int, device_left: int | None) -> Granted | None:
    host_need, device_need = _least(need)
    if host_need > host_left or (device_left is not None and device_need > device_left):
        return None
    if need.is_cache_on_device:
        room = need.cache_bytes if device_left is None else device_left - need.device_bytes
    else:
        room = host_left - need.host_bytes
    cache = min(need.cache_bytes, room)
    on_device = cache if need.is_cache_on_device else 0
    return Granted(need.host_bytes + cache - on_device, need.device_bytes + on_device, cache)


def _figures(need: LoadNeed, host_left: int, device_left: int | None) -> str:
    host_need, device_need = _least(need)
    if host_need > host_left or device_left is None:
        return f"needs {in_gb(host_need)} of host memory, {in_gb(max(0, host_left))} are free"
    return f"needs {in_gb(device_need)} of device memory, {in_gb(max(0, device_left))} are free"
