"""Devices on which nothing more is started, because a worker there could not be reaped.

One registry for all models of a server. A process that SIGKILL does not end hangs in its driver: the
next one on that device would hang beside it. The host's own processor is never quarantined.
"""

import re
from collections.abc import Callable

_SELECTORS = frozenset({"AUTO", "MULTI", "HETERO", "BATCH", ""})
_HOST = "CPU"


def devices_of(device: str) -> frozenset[str]:
    """The devices that an OpenVINO device string can come to use, but for the host's processor."""
    names = [re.sub(r"\(.*\)", "", part).strip() for part in re.split(r"[:,]", device.upper())]
    found = {name for name in names if name not in _SELECTORS and not name.startswith("-")}
    return frozenset(f"{name}.0" if name == "GPU" else name for name in found if name != _HOST)


class Quarantine:
    """Which devices are held, by which workers. Used on the event loop only."""

    def __init__(self) -> None:
        self._held: dict[int, tuple[frozenset[str], str]] = {}
        """By worker id: its devices, and why."""
        self._listeners: list[Callable[[], None]] = []

    def hold(self, worker_id: int, device: str, reason: str) -> None:
        """Nothing more is started on these devices until `release`."""
        self._held[worker_id] = (devices_of(device), reason)

    def release(self, worker_id: int) -> None:
        """The worker was reaped after all. Unknown ones do nothing."""
        if self._held.pop(worker_id, None) is not None:
            for listener in self._listeners:
                listener()

    def reason(self, device: str) -> str | None:
        """Why nothing may be started there, as a sentence without a full stop; `None`: it may."""
        wanted = devices_of(device)
        for devices, reason in self._held.values():
            if both := wanted & devices:
                return f"device {min(both)} is quarantined: {reason}"
        return None

    def on_release(self, listener: Callable[[], None]) -> None:
        """Have somebody told when a device may have become free."""
        self._listeners.append(listener)
