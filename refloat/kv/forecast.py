"""How full a cache will become if everybody runs to where he is expected to end. Pure.

Sequences end at different times, and what one gives back another can grow into. So the most that will
be in use at a time is far less than all of their ends together, and nothing is preempted as long as
the expectations hold. (The idea is that of LightLLM's "past-future" scheduler.)
"""

from collections.abc import Sequence
from typing import NamedTuple


class Load(NamedTuple):
    """One sequence."""

    tokens: int
    """In blocks of its own."""
    left: int
    """Steps for which it is expected to be there, a token each."""
    most: int = 1 << 62
    """Tokens in blocks of its own that it never exceeds."""


def peak_blocks(loads: Sequence[Load], block_size: int) -> int:
    """The most blocks in use at any time, all advancing at one pace and each giving its blocks back
    at its end. The peaks are where somebody ends."""
    ordered = sorted(loads, key=lambda load: load.left)
    peak = 0
    for place, (_, left, _) in enumerate(ordered):
        if place and ordered[place - 1].left == left:
            continue
        # `blocks_for`, written out: all pairs pass here, again and again
        held = sum(
            -(-min(tokens + left, most) // block_size) for tokens, _, most in ordered[place:]
        )
        peak = max(peak, held)
    return peak
