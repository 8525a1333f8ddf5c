"""How far a process has got on its GPU, by the kernel's own accounts (`drm-*` lines of fdinfo).

Only to see whether the device works for it: counters differ between drivers in unit and meaning. A
process without a DRM file, or one that may not be looked at, has no counters.
"""

import os
from pathlib import Path

_PROC = Path("/proc")
_DRM_FOLDER = "/dev/dri/"
#: Work done. `drm-total-cycles-*` is the clock and runs for an idle process, too; the capacity of an
#: engine is none.
_WORK = ("drm-engine-", "drm-cycles-")
_NOT_WORK = ("drm-engine-capacity-",)

#: Client and engine, and how far it has got.
DeviceUse = dict[tuple[str, str], int]


def read_device_use(pid: int, proc: Path = _PROC) -> DeviceUse:
    """Counters of every DRM client of a process; empty if there is none."""
    use: DeviceUse = {}
    folder = proc / str(pid)
    try:
        numbers = os.listdir(folder / "fd")
    except OSError:
        return use
    for number in numbers:
        try:
            if not os.readlink(folder / "fd" / number).startswith(_DRM_FOLDER):
                continue
            text = (folder / "fdinfo" / number).read_text()
        except OSError:
            continue  # closed meanwhile
        use |= parse_fdinfo(text)
    return use


def parse_fdinfo(text: str) -> DeviceUse:
    """The counters of one file. Two descriptors of one client say the same."""
    fields = [(key.strip(), value.split()) for key, _, value in _split(text)]
    named = {key: value[0] for key, value in fields if value}
    client = f"{named.get('drm-pdev', '')}/{named.get('drm-client-id', '')}"
    return {
        (client, key): int(value)
        for key, value in named.items()
        if key.startswith(_WORK) and not key.startswith(_NOT_WORK) and value.isdecimal()
    }


def has_advanced(before: DeviceUse, now: DeviceUse) -> bool:
    """Whether any counter has grown. A client that has gone took its counters with it."""
    return any(value > before.get(key, 0) for key, value in now.items())


def _split(text: str) -> list[tuple[str, str, str]]:
    return [line.partition(":") for line in text.splitlines()]
