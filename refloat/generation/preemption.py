"""Who has to stop so that others can go on. Pure policy.

Two reasons: the cache is about to be full, or a tenant waits while another has more than its share of
the slots. Stopping costs a generation time and nothing else: it goes on from where it stands.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple


class Running(NamedTuple):
    """One generation that a worker has."""

    generation: int
    tenant: str
    priority: int = 0
    is_sampled: bool = False
    """Goes on with other numbers than it would have drawn."""
    is_guided: bool = False
    """Goes on only when it is known what its grammar leaves."""


class Shares:
    """How many slots each tenant has, over its weight."""

    def __init__(self, slots: Mapping[str, int], weights: Mapping[str, float]) -> None:
        """Tenants without a weight have 1."""
        self._slots = slots
        self._weights = weights

    def of(self, tenant: str, more: int = 0) -> float:
        """With `more` slots than it has."""
        return (self._slots.get(tenant, 0) + more) / self._weights.get(tenant, 1.0)

    def average(self) -> float:
        """Of those that have any."""
        slots = sum(self._slots.values())
        weight = sum(self._weights.get(tenant, 1.0) for tenant in self._slots)
        return slots / weight if weight else 0.0


def victim_of_shortage(running: Sequence[Running], shares: Shares) -> int | None:
    """Whom to stop on a worker whose blocks run short: the lowest priority, then tenants with more
    than their share, then those that are neither guided nor sampled, then the youngest. Never the
    oldest: so one always gets to its end. `None`: there is nobody else."""
    if len(running) < 2:
        return None
    oldest = min(item.generation for item in running)
    average = shares.average()
    others = (item for item in running if item.generation != oldest)
    return min(
        others,
        key=lambda item: (
            item.priority,
            shares.of(item.tenant) <= average,
            item.is_guided,
            item.is_sampled,
            -item.generation,
        ),
    ).generation


def victim_of_fairness(
    tenant: str, priority: int, running: Iterable[Running], shares: Shares
) -> int | None:
    """Whom to stop so that `tenant`, whose generation waits first in line, gets a slot: the youngest
    of the tenant that has most, if that one has no less than `tenant` even then. So nobody is
    stopped twice to and fro."""
    enough = shares.of(tenant, 1)
    richer = [
        item
        for item in running
        if item.tenant != tenant
        and item.priority <= priority
        and shares.of(item.tenant, -1) >= enough
    ]
    return min(richer, key=lambda item: _stop_order(item, shares)).generation if richer else None


def _stop_order(item: Running, shares: Shares) -> tuple[int, float, bool, bool, int]:
    return (
        item.priority,
        -shares.of(item.tenant),
        item.is_guided,
        item.is_sampled,
        -item.generation,
    )
