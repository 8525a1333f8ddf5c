"""Seeds: one request's seed gives every choice, and every resumption, its own. Pure.

- Choice 0 of a prompt uses the request's seed as it is, so a seed reproduces what it gave before.
- Choice j > 0, and any seed beyond 32 bits (samplers seed a 32-bit generator and would silently
  take such a seed for a smaller one), uses the first 4 bytes of BLAKE2b over `seed:j`.
- A sampled generation that goes on at position p > 0 uses the same of `seed@p`: the engine starts
  its generator anew, and the numbers already drawn must not come again.
"""

from hashlib import blake2b
from secrets import randbits

_BITS = 32


def draw_seed() -> int:
    """A seed for a request that brought none."""
    return randbits(_BITS)


def choice_seed(seed: int, choice: int) -> int:
    """The seed of a prompt's choice number `choice`."""
    if choice == 0 and 0 <= seed < 1 << _BITS:
        return seed
    return _mix(f"{seed}:{choice}")


def resume_seed(seed: int, position: int) -> int:
    """The seed with which a generation goes on after `position` tokens."""
    return _mix(f"{seed}@{position}") if position else seed


def _mix(text: str) -> int:
    return int.from_bytes(blake2b(text.encode(), digest_size=_BITS // 8).digest(), "big")
