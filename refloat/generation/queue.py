"""The generations of one model that wait for a worker, and the order in which they may go. Bounded.

Higher priorities first; among equals the tenant first that has the fewest slots for its weight; of one
tenant's those first that ran already, then first come. Who may go is decided in `scheduler.py`.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from heapq import heapify, heappop, heapreplace
from itertools import chain
from typing import Protocol

from refloat.generation.choice import Choice
from refloat.generation.limits import Limits

#: Priority, share of the slots, whether it never ran, generation: the least goes first.
_Rank = tuple[int, float, bool, int]


class Attendant(Protocol):
    """Sees to parked ones that may not go on before something is known of them."""

    def attend(self, choice: Choice) -> None:
        """This one was parked."""
        ...

    def check(self) -> None:
        """Raises what broke in its work."""
        ...


class _TenantLine:
    """Those of one tenant, keyed by generation: removal from the middle costs no more than from the
    head."""

    __slots__ = ("_priorities", "parked", "queued")

    def __init__(self) -> None:
        self.queued: dict[int, Choice] = {}
        self.parked: dict[int, Choice] = {}
        self._priorities: Counter[int] = Counter()

    def __len__(self) -> int:
        return len(self.queued) + len(self.parked)

    def put(self, choice: Choice, among: dict[int, Choice]) -> None:
        """Into one of the two."""
        among[choice.journal.generation] = choice
        self._priorities[_priority(choice)] += 1

    def take(self, choice: Choice) -> bool:
        """Out of whichever it is in. Whether it never ran."""
        generation, priority = choice.journal.generation, _priority(choice)
        is_new = self.queued.pop(generation, None) is not None
        if is_new or self.parked.pop(generation, None) is not None:
            self._priorities[priority] -= 1
            if not self._priorities[priority]:
                del self._priorities[priority]
        return is_new

    def in_order(self) -> Iterator[tuple[Choice, bool]]:
        """Each with whether it never ran."""
        parked = ((choice, False) for _, choice in sorted(self.parked.items()))
        everyone = chain(parked, ((choice, True) for choice in self.queued.values()))
        if len(self._priorities) > 1:
            return iter(sorted(everyone, key=lambda pair: -_priority(pair[0])))
        return everyone


class WaitingLine:
    """All tenants' lines."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._tenants: dict[str, _TenantLine] = {}
        self._where: dict[int, _TenantLine] = {}
        self.queued = 0
        """Waiting ones that were never sent."""
        self.queued_tokens = 0
        self.queued_bytes = 0
        self.attendant: Attendant | None = None

    def __len__(self) -> int:
        return len(self._where)

    def __iter__(self) -> Iterator[Choice]:
        """In the order in which they may go if nobody runs."""
        return self.in_order({})

    def in_order(self, slots: Mapping[str, int]) -> Iterator[Choice]:
        """In the order in which they may go, each tenant having so many slots, and one more for each
        of its own that was returned before."""
        weights = self._limits.tenant_weights
        heads: list[tuple[_Rank, Choice, Iterator[tuple[Choice, bool]], int]] = []
        for tenant, line in self._tenants.items():
            followers = line.in_order()
            choice, is_new = next(followers)
            taken = slots.get(tenant, 0)
            share = taken / weights.get(tenant, 1.0)
            heads.append((_rank(choice, share, is_new=is_new), choice, followers, taken))
        heapify(heads)
        while heads:
            _, choice, followers, taken = heads[0]
            yield choice
            if (following := next(followers, None)) is None:
                heappop(heads)
                continue
            share = (taken + 1) / weights.get(choice.journal.tenant, 1.0)
            choice, is_new = following
            rank = _rank(choice, share, is_new=is_new)
            heapreplace(heads, (rank, choice, followers, taken + 1))

    def has_room_for(self, choices: tuple[Choice, ...], startable: int) -> bool:
        """Whether these may join, when `startable` of the line and them could run now.

        A request of which one part starts now may always leave its rest here: else one that is
        larger than the line could never be served, not even by an idle server.
        """
        if startable > len(self):
            return True
        limits = self._limits
        return (
            len(self) + len(choices) - startable <= limits.max_queue
            and self.queued_tokens + sum(c.journal.tokens_needed for c in choices)
            <= limits.max_queued_tokens
            and self.queued_bytes + sum(c.held_bytes for c in choices) <= limits.max_queued_bytes
        )

    def enqueue(self, choice: Choice) -> None:
        """At the end of its tenant's line."""
        line = self._line_of(choice)
        line.put(choice, line.queued)
        self.queued += 1
        self.queued_tokens += choice.journal.tokens_needed
        self.queued_bytes += choice.held_bytes

    def park(self, choice: Choice) -> None:
        """Among its tenant's that ran already; the oldest of them goes first."""
        line = self._line_of(choice)
        line.put(choice, line.parked)
        if self.attendant is not None and choice.journal.needs_rest:
            self.attendant.attend(choice)

    def check(self) -> None:
        """Raises what broke in the attendant's work."""
        if self.attendant is not None:
            self.attendant.check()

    def remove(self, choice: Choice) -> None:
        """Out of whichever line it stands in; unknown ones do nothing."""
        generation = choice.journal.generation
        line = self._where.pop(generation, None)
        if line is None:
            return
        if line.take(choice):
            self.queued -= 1
            self.queued_tokens -= choice.journal.tokens_needed
            self.queued_bytes -= choice.held_bytes
        if not len(line):
            del self._tenants[choice.journal.tenant]

    def shorten(self, choice: Choice, max_tokens: int) -> None:
        """It is to have no more tokens than that; it keeps its place."""
        before = choice.journal.tokens_needed
        choice.journal.shorten(max_tokens)
        line = self._where.get(choice.journal.generation)
        if line is not None and choice.journal.generation in line.queued:
            self.queued_tokens += choice.journal.tokens_needed - before

    def find(self, generation: int) -> Choice | None:
        """`None` if it does not wait."""
        line = self._where.get(generation)
        if line is None:
            return None
        parked = line.parked.get(generation)
        return parked if parked is not None else line.queued.get(generation)

    def get(self, generation: int) -> Choice:
        """Raises `KeyError` if it does not wait."""
        choice = self.find(generation)
        if choice is None:
            raise KeyError(generation)
        return choice

    def _line_of(self, choice: Choice) -> _TenantLine:
        line = self._tenants.setdefault(choice.journal.tenant, _TenantLine())
        self._where[choice.journal.generation] = line
        return line


def _priority(choice: Choice) -> int:
    return choice.session.request.priority


def _rank(choice: Choice, share: float, *, is_new: bool) -> _Rank:
    return (-_priority(choice), share, is_new, choice.journal.generation)
