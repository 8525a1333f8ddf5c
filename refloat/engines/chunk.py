"""How much of a prompt a step computes, so that it takes no longer than those who run beside it should
wait; and how many may run beside it. Pure.
"""

from typing import NamedTuple

#: Smaller chunks cost more in steps than they save in any one of them.
LEAST_CHUNK = 32


class Prefill(NamedTuple):
    """A step that computed so many prompt tokens."""

    tokens: int
    seconds: float
    context: int = 0
    """Tokens of the prompt that had been computed before."""


def chunk_for(
    target_s: float,
    small: Prefill,
    large: Prefill,
    late: Prefill | None = None,
    *,
    context: int = 0,
) -> int:
    """Tokens of a step that takes `target_s`, no more than the large one had, even where a prompt of
    `context` tokens comes to its end: the time of a step grows evenly with its tokens, and with what
    each of them looks back on, near enough. `late`: as large, further behind in a prompt."""
    look_s = 0.0
    """For each token, for each one that it looks back on."""
    if late is not None:
        between = late.context - large.context
        look_s = max(0.0, (late.seconds - large.seconds) / (late.tokens * between))
    more = max(1, large.tokens - small.tokens)
    halves = (large.tokens**2 - small.tokens**2) / 2
    each_s = max(0.0, (large.seconds - small.seconds - look_s * halves) / more)
    fixed_s = small.seconds - small.tokens * (each_s + look_s * small.tokens / 2)
    token_s = each_s + look_s * context
    if token_s <= 0 or fixed_s + large.tokens * token_s <= target_s:
        return large.tokens
    return max(min(LEAST_CHUNK, large.tokens), int((target_s - fixed_s) / token_s))


def seats_beside(step_tokens: int) -> int:
    """Sequences that may run at a time where a step computes so many tokens. An engine takes those
    first that came first, a token each: with more than that the last ones would get none for as
    long as the others run, and with as many a prompt would never be begun."""
    return max(1, step_tokens - step_tokens // 4)
