"""How much of a prompt a step computes, so that it takes no longer than those who run beside it should
wait. Pure.
"""

from typing import NamedTuple

#: Smaller chunks cost more in steps than they save in any one of them.
LEAST_CHUNK = 16


class Prefill(NamedTuple):
    """A step that computed so many prompt tokens."""

    tokens: int
    seconds: float


def chunk_for(target_s: float, small: Prefill, large: Prefill) -> int:
    """Tokens of a step that takes `target_s`, no more than the large one had: the time of a step grows
    evenly with its tokens, near enough."""
    each_s = (large.seconds - small.seconds) / max(1, large.tokens - small.tokens)
    if large.seconds <= target_s or each_s <= 0:
        return large.tokens
    fixed_s = small.seconds - each_s * small.tokens
    return max(LEAST_CHUNK, min(large.tokens, int((target_s - fixed_s) / each_s)))
