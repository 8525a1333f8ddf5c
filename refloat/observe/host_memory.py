"""How much memory the host has left, by the kernel and by the control groups that this process is in.

Every path lies below a root that tests replace.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

_ROOT = Path("/")
_FALLBACK_BYTES = 2 << 30
#: Control groups of the first version write "no limit" as a number near 2^63.
_NO_LIMIT = 1 << 60
_KIB = 1024


class HostMemory(NamedTuple):
    """Bytes."""

    available: int
    """Can be taken without pushing others out."""
    limit: int
    """All that processes here may ever have."""


class _Group(NamedTuple):
    """How one version of control groups names its figures."""

    limit: str
    used: str
    cached: str


_V1 = _Group("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
_V2 = _Group("memory.max", "memory.current", "inactive_file")


def read_host_memory(root: Path = _ROOT) -> HostMemory:
    """The tighter of host and control groups; a small figure if nothing is known."""
    meminfo = _fields(root / "proc/meminfo")
    available = [meminfo["MemAvailable:"] * _KIB] if "MemAvailable:" in meminfo else []
    limits = [meminfo["MemTotal:"] * _KIB] if "MemTotal:" in meminfo else []
    for folder, group in _groups(root):
        limit, used = _number(folder / group.limit), _number(folder / group.used)
        if limit is None or used is None or limit >= _NO_LIMIT:
            continue
        cached = _fields(folder / "memory.stat").get(group.cached, 0)
        limits.append(limit)
        available.append(limit - max(0, used - cached))
    least = max(0, min(available, default=_FALLBACK_BYTES))
    return HostMemory(least, min(limits, default=least))


def resident_bytes(pid: int, root: Path = _ROOT) -> int:
    """Memory of a process that is nobody else's and no file's; 0 for one that is gone."""
    status = _fields(root / "proc" / str(pid) / "status")
    return (status.get("RssAnon:", 0) + status.get("RssShmem:", 0)) * _KIB


def _groups(root: Path) -> Iterator[tuple[Path, _Group]]:
    """The control groups of this process, from the innermost out. In a container the path is often
    the host's, and only the group at the root can be seen."""
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        lines = ["0::/"]
    for line in lines:
        _, controllers, path = (*line.split(":", 2), "", "")[:3]
        if controllers == "":
            base, group = root / "sys/fs/cgroup", _V2
        elif "memory" in controllers.split(","):
            base, group = root / "sys/fs/cgroup/memory", _V1
        else:
            continue
        parts = [part for part in path.split("/") if part not in ("", "..")]
        for depth in range(len(parts), -1, -1):
            yield base.joinpath(*parts[:depth]), group


def _fields(path: Path) -> dict[str, int]:
    """`name number ...` lines; empty where there is no such file."""
    found: dict[str, int] = {}
    try:
        lines = path.read_text().splitlines()
    except OSError:
        return found
    for line in lines:
        words = line.split()
        if len(words) >= 2 and words[1].isdecimal():
            found[words[0]] = int(words[1])
    return found


def _number(path: Path) -> int | None:
    try:
        text = path.read_text().strip()
    except OSError:
        return None
    return int(text) if text.isdecimal() else None
