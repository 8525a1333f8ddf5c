"""How much memory this process may still take on the host, by the kernel and by its control group."""

from pathlib import Path

_FALLBACK_BYTES = 2 << 30
_MEMINFO = Path("/proc/meminfo")
_GROUP = Path("/sys/fs/cgroup")


def available_bytes(meminfo: Path = _MEMINFO, group: Path = _GROUP) -> int:
    """Bytes that can be taken without pushing others out; a small figure if nothing is known."""
    found = [value for value in (_available(meminfo), _left_in_group(group)) if value is not None]
    return max(0, min(found, default=_FALLBACK_BYTES))


def _available(meminfo: Path) -> int | None:
    try:
        lines = meminfo.read_text().splitlines()
    except OSError:
        return None
    for line in lines:
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return None


def _left_in_group(group: Path) -> int | None:
    try:
        limit = (group / "memory.max").read_text().strip()
        used = (group / "memory.current").read_text().strip()
        return None if limit == "max" else int(limit) - int(used)
    except (OSError, ValueError):
        return None
