"""The events of one generation, kept so that they can be read again, each under its ordinal.

Written by one session, read by any number of readers at their own places. Bounded in bytes: of what
does not fit, the oldest goes, and whoever had not read that has missed it.
"""

from collections.abc import Callable

from refloat.generation.budget import Lease
from refloat.generation.doorbell import Doorbell
from refloat.generation.events import Completed, Delta, Event, Failed, Parsed, part_bytes

EVENT_BYTES = 160
LOGPROB_BYTES = 160


def event_bytes(event: Event) -> int:
    """What an event costs while it is held."""
    if isinstance(event, Parsed):
        return EVENT_BYTES + part_bytes(event.part)
    if not isinstance(event, Delta):
        return EVENT_BYTES
    return EVENT_BYTES + len(event.text) + LOGPROB_BYTES * len(event.logprobs)


class MissedError(Exception):
    """Events that somebody asks for are not kept any more."""


class Recording:
    """Ordinals count from 1; an ordinal `after` stands for all events behind it."""

    def __init__(self, lease: Lease, max_bytes: int) -> None:
        self.held_bytes = 0
        self.dropped = 0
        """Ordinal of the last event that is not kept any more."""
        self.terminal: Completed | Failed | None = None
        self._lease = lease
        self._max_bytes = max_bytes
        self._events: list[Event] = []
        self._bells: set[Doorbell] = set()

    @property
    def last(self) -> int:
        """Ordinal of the newest event."""
        return self.dropped + len(self._events)

    def put(self, event: Event, size_bytes: int) -> None:
        """The next event. Nothing comes after a terminal one."""
        self._events.append(event)
        self._count(size_bytes)
        if isinstance(event, Completed | Failed):
            self.terminal = event
        elif self.held_bytes > self._max_bytes:
            self._shrink()
        for bell in self._bells:
            bell.ring()

    def since(self, after: int) -> list[Event]:
        """Everything behind `after`, as far as it has come. Raises `MissedError`."""
        if after < self.dropped:
            raise MissedError(f"events up to {self.dropped} are not kept any more")
        return self._events[after - self.dropped :]

    async def news(self, bell: Doorbell, after: Callable[[], int]) -> list[Event]:
        """At least one event behind `after()`, which may not be the terminal one's ordinal, and which
        a call of `bell`'s may move on. Raises `MissedError`. Cancelling the wait loses nothing."""
        while self.last <= after():
            self._bells.add(bell)
            try:
                await bell.wait()
            finally:
                self._bells.discard(bell)
        return self.since(after())

    def backlog_bytes(self, after: int) -> int:
        """What a reader at `after` has not read yet."""
        if after < self.dropped:
            return self.held_bytes
        return sum(map(event_bytes, self._events[after - self.dropped :]))

    def drop_until(self, ordinal: int) -> None:
        """Keep nothing up to and with this event."""
        count = max(0, min(ordinal - self.dropped, len(self._events)))
        self._count(-sum(map(event_bytes, self._events[:count])))
        del self._events[:count]
        self.dropped += count

    def close(self) -> None:
        """Nobody reads it any more: give the bytes back."""
        self._lease.close()

    def _shrink(self) -> None:
        """To three quarters, so that this is not done for every event."""
        excess, count = self.held_bytes - self._max_bytes * 3 // 4, 0
        while excess > 0 and count < len(self._events):
            excess -= event_bytes(self._events[count])
            count += 1
        self.drop_until(self.dropped + count)

    def _count(self, delta_bytes: int) -> None:
        self.held_bytes += delta_bytes
        self._lease.adjust(delta_bytes)
