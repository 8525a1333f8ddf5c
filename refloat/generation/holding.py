"""Guided text that is held back until it is whole, for a reader who would rather have nothing than a
part of it."""

from collections import defaultdict

from refloat.generation.budget import Lease
from refloat.generation.events import Delta, Parsed


class Holding:
    """The events of one session's choices that were not told yet, each with the bytes of its text."""

    def __init__(self, lease: Lease) -> None:
        """`lease`: the session's own, which ends with it."""
        self._lease = lease
        self._events: defaultdict[int, list[tuple[Delta | Parsed, int]]] = defaultdict(list)

    def add(self, event: Delta | Parsed, text_bytes: int = 0) -> None:
        """Keep an event of a choice."""
        self._events[event.index].append((event, text_bytes))
        self._lease.adjust(text_bytes)

    def release(self, index: int) -> list[tuple[Delta | Parsed, int]]:
        """All that was kept of a choice, in order."""
        events = self._events.pop(index, [])
        self._lease.adjust(-sum(text_bytes for _, text_bytes in events))
        return events
