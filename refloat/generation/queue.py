"""The generations of one model that wait for a worker: parked ones first, then first come, bounded.

Keeps order and counts; who may go is decided in `scheduler.py`.
"""

from collections.abc import Iterator
from itertools import chain

from refloat.generation.choice import Choice
from refloat.generation.limits import Limits


class WaitingLine:
    """Two lines, keyed by generation: removal from the middle costs no more than from the head."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._queued: dict[int, Choice] = {}
        self._parked: dict[int, Choice] = {}
        self.queued_tokens = 0
        self.queued_bytes = 0

    def __len__(self) -> int:
        return len(self._queued) + len(self._parked)

    def __iter__(self) -> Iterator[Choice]:
        """In the order in which they may go."""
        parked = (self._parked[generation] for generation in sorted(self._parked))
        return chain(parked, self._queued.values())

    @property
    def queued(self) -> int:
        """Waiting ones that were never sent."""
        return len(self._queued)

    def has_room_for(self, choices: tuple[Choice, ...], startable: int) -> bool:
        """Whether these may join, when the first `startable` of the line and them could run now.

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
        """At the end of the line."""
        self._queued[choice.journal.generation] = choice
        self.queued_tokens += choice.journal.tokens_needed
        self.queued_bytes += choice.held_bytes

    def park(self, choice: Choice) -> None:
        """Among those that ran already; the oldest of them goes first."""
        self._parked[choice.journal.generation] = choice

    def remove(self, choice: Choice) -> None:
        """Out of whichever line it stands in; unknown ones do nothing."""
        generation = choice.journal.generation
        self._parked.pop(generation, None)
        if self._queued.pop(generation, None) is not None:
            self.queued_tokens -= choice.journal.tokens_needed
            self.queued_bytes -= choice.held_bytes

    def find(self, generation: int) -> Choice | None:
        """`None` if it does not wait."""
        parked = self._parked.get(generation)
        return parked if parked is not None else self._queued.get(generation)

    def get(self, generation: int) -> Choice:
        """Raises `KeyError` if it does not wait."""
        choice = self.find(generation)
        if choice is None:
            raise KeyError(generation)
        return choice
