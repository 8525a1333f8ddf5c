"""Which piece of hardware an OpenVINO device name means, as far as sysfs tells. No OpenVINO here.

The plugin numbers GPUs by itself; sysfs knows the cards alone. Where there is one card the answer is
certain; where there are several it is a guess, and marked as one.
"""

import re
from pathlib import Path
from typing import NamedTuple

import msgspec

_CARD = re.compile(r"card\d+")
_INTEL = "0x8086"
_GPU_NAME = re.compile(r"GPU(?:\.(?P<number>\d+))?", re.I)


class DeviceFacts(msgspec.Struct, frozen=True, omit_defaults=True):
    """A device by both of its names."""

    name: str
    """OpenVINO's (`CPU`, `GPU.1`)."""
    address: str | None = None
    """PCI address (`0000:03:00.0`)."""
    driver: str | None = None
    """The kernel's driver for it."""
    is_guess: bool = False
    """There are several cards, and OpenVINO's order is assumed: integrated first, then by address."""


class Card(NamedTuple):
    """One graphics card of Intel's."""

    address: str
    driver: str | None

    @property
    def is_integrated(self) -> bool:
        """On Intel's platforms: device 2 of the first bus."""
        return self.address.endswith(":00:02.0")


def find_device(name: str, sys_root: Path = Path("/sys")) -> DeviceFacts:
    """The hardware behind an OpenVINO name; only the name where nothing more can be told."""
    match = _GPU_NAME.search(name)
    if match is None:
        return DeviceFacts(name)
    cards = sorted(intel_cards(sys_root), key=lambda card: (not card.is_integrated, card.address))
    number = int(match["number"] or 0)
    if number >= len(cards):
        return DeviceFacts(name)
    card = cards[number]
    return DeviceFacts(name, card.address, card.driver, is_guess=len(cards) > 1)


def intel_cards(sys_root: Path) -> list[Card]:
    """Intel's graphics cards, in no certain order. None where sysfs cannot be read."""
    found: dict[str, Card] = {}
    try:
        entries = sorted((sys_root / "class" / "drm").iterdir())
    except OSError:
        return []
    for entry in entries:
        if not _CARD.fullmatch(entry.name):
            continue
        device = entry / "device"
        try:
            if (device / "vendor").read_text().strip() != _INTEL:
                continue
            address = device.resolve().name
        except OSError:
            continue
        driver = device / "driver"
        found[address] = Card(address, driver.resolve().name if driver.exists() else None)
    return list(found.values())
