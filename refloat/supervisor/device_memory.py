"""How much memory a GPU has left, where its driver tells it to everybody. Most do not.

`amdgpu` does, in sysfs. Intel's drivers tell it to privileged users only, so their figure is unknown
here and a load on them is not held back for it.
"""

from pathlib import Path
from typing import NamedTuple

_DRM = Path("/sys/class/drm")


class DeviceMemory(NamedTuple):
    """Bytes."""

    free: int
    limit: int


def read_device_memory(device: str, drm: Path = _DRM) -> DeviceMemory | None:
    """Of the GPU that an OpenVINO device names; `None`: not known. Which card a number means is not
    known either, so only the figures of a machine's only card are taken."""
    if "GPU" not in device.upper():
        return None
    found = [memory for card in drm.glob("card[0-9]*") if (memory := _of_card(card / "device"))]
    return found[0] if len(found) == 1 else None


def _of_card(folder: Path) -> DeviceMemory | None:
    try:
        limit = int((folder / "mem_info_vram_total").read_text())
        used = int((folder / "mem_info_vram_used").read_text())
    except (OSError, ValueError):
        return None
    return DeviceMemory(max(0, limit - used), limit)
