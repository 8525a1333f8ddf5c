"""Paired ratios: what two interleaved series say about each other. Pure.

Absolute times on a shared machine scatter by a factor of three; a ratio within one round does not.
"""

import random
import statistics
from collections.abc import Callable, Sequence
from typing import NamedTuple

_RESAMPLES = 2000
_SEED = 20_26


class Estimate(NamedTuple):
    """A median with its 95 % bootstrap interval."""

    median: float
    low: float
    high: float
    rounds: int


def estimate(values: Sequence[float]) -> Estimate:
    """Median of `values` and the interval in which it lies in 95 % of resamplings.

    The percentile bootstrap (Efron 1979), with a fixed seed so that a report can be repeated.
    Raises `ValueError` for an empty series.
    """
    if not values:
        raise ValueError("no rounds were measured")
    rng = random.Random(_SEED)
    medians = sorted(
        statistics.median(rng.choices(values, k=len(values))) for _ in range(_RESAMPLES)
    )
    return Estimate(
        statistics.median(values),
        medians[int(0.025 * _RESAMPLES)],
        medians[int(0.975 * _RESAMPLES)],
        len(values),
    )


def paired(
    first: Sequence[float],
    second: Sequence[float],
    relation: Callable[[float, float], float],
) -> Estimate:
    """The estimate of `relation(first[i], second[i])` over rounds. Raises `ValueError` if the
    series differ in length."""
    return estimate([relation(a, b) for a, b in zip(first, second, strict=True)])
