"""What an answer needs of the `/responses` body that asked for it."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Told:
    """What of the body comes back, and what of it is kept."""

    items: bytes
    """Its input, as JSON."""
    store: bool
    echo: dict[str, Any]
