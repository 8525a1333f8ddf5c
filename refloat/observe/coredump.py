"""Device coredumps (`/sys/class/drm/card*/device/devcoredump/data`): found, and copied before the
kernel deletes them. Blocking: never on the event loop.

One finder for a gateway remembers which ones it has seen, so that each is copied once, whoever asks.
"""

import threading
from pathlib import Path
from typing import NamedTuple

_PIECE_BYTES = 1024 * 1024
MAX_COREDUMP_BYTES = 256 * 1024 * 1024


class Coredump(NamedTuple):
    """One that is there."""

    path: Path
    """Of its `data`."""
    address: str
    """PCI address of its device."""
    mtime_ns: int

    @property
    def key(self) -> tuple[str, int]:
        """Names it for good: the kernel's directory is numbered, a stand-in's has a time."""
        return str(self.path), self.mtime_ns


class Copied(NamedTuple):
    """How a copy went."""

    size_bytes: int
    trouble: str | None = None
    """Why it is not whole; `None`: it is."""


class CoredumpFinder:
    """Whatever is there at its making is old."""

    def __init__(self, sys_root: Path = Path("/sys")) -> None:
        self._sys_root = sys_root
        self._lock = threading.Lock()
        self._known = {dump.key for dump in self._present()}

    def take_new(self, address: str | None) -> Coredump | None:
        """The newest that nobody has taken, of the device at `address` (or any, if that is not
        known). Older new ones of that device are passed over for good."""
        with self._lock:
            fresh = [
                dump
                for dump in self._present()
                if dump.key not in self._known and address in (None, dump.address)
            ]
            self._known.update(dump.key for dump in fresh)
        return max(fresh, key=lambda dump: dump.mtime_ns, default=None)

    def _present(self) -> list[Coredump]:
        found: dict[tuple[str, int], Coredump] = {}
        try:
            cards = list((self._sys_root / "class" / "drm").glob("card*/device/devcoredump/data"))
        except OSError:
            return []
        for card in cards:
            try:  # several cards and render nodes lead to one device
                data = card.resolve(strict=True)
                device = card.parent.parent.resolve(strict=True)
                dump = Coredump(data, device.name, data.stat().st_mtime_ns)
            except OSError:
                continue  # deleted while we looked
            found[dump.key] = dump
        return list(found.values())


def copy_coredump(dump: Coredump, target: Path, max_bytes: int = MAX_COREDUMP_BYTES) -> Copied:
    """Copy at most `max_bytes`. What the kernel deletes in the middle is kept as far as it came.

    Raises `OSError` if the target cannot be written.
    """
    size = 0
    try:
        source = dump.path.open("rb", buffering=0)
    except OSError as error:
        return Copied(0, f"it could not be opened ({error.strerror})")
    with source, target.open("wb") as copy:
        while size < max_bytes:
            try:
                piece = source.read(min(_PIECE_BYTES, max_bytes - size))
            except OSError as error:
                return Copied(size, f"it vanished after {size} bytes ({error.strerror})")
            if not piece:
                return Copied(size)
            copy.write(piece)
            size += len(piece)
        return Copied(size, f"cut at {max_bytes} bytes" if source.read(1) else None)
