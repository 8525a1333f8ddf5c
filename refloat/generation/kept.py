"""One recorded generation, and one client's reading of it. What becomes of it is in `streams.py`."""

import asyncio
import secrets
from collections.abc import Callable, Sequence
from typing import Any

from refloat.generation.doorbell import Doorbell
from refloat.generation.events import Completed, Event, Failed
from refloat.generation.outcome import deadline_exceeded
from refloat.generation.replay import MissedError, Recording
from refloat.generation.request import Retention
from refloat.generation.session import Session
from refloat.wire.problem import Problem, ProblemKind

#: What is remembered of one beside its events.
BASE_BYTES = 4096


class Kept:
    """Mutable; written by `Streams` alone, but for `form` and `is_stored`."""

    def __init__(self, session: Session, recording: Recording, retention: Retention) -> None:
        self.stream_id = secrets.token_hex(16)
        """Unguessable."""
        self.session: Session | None = session
        """`None` once it has ended."""
        self.recording = recording
        self.retention = retention
        self.request = session.request
        self.model = session.model
        self.created = session.created
        self.fingerprint = session.fingerprint
        self.prompt_tokens = session.prompt_tokens
        self.tenant = session.request.tenant
        self.is_findable = False
        self.form: Any = None
        """How whoever asked first is answered; nothing here looks into it."""
        self.is_stored = False
        """Its answer was put where answers are kept for good; once, or one that was deleted there would
        come back with the next reader."""
        self.readers: set[Attendance] = set()
        self.is_delivered = False
        """Some client has read it to its end."""
        self.leave_at_s: float | None = None
        """When it ends without a reader; `None`: never, or it has one."""
        self.is_orphan = False
        self.yields = False
        self.ended_s: float | None = None

    @property
    def has_failed(self) -> bool:
        """It ended without an answer."""
        return isinstance(self.recording.terminal, Failed)


class Attendance:
    """One client reads one generation. Implements the api's `SessionPort`."""

    def __init__(
        self,
        kept: Kept,
        *,
        after: int,
        is_attached: bool,
        max_backlog_bytes: int,
        on_leave: Callable[["Attendance"], None],
        until_s: float | None = None,
    ) -> None:
        """`until_s`: this client's own deadline, by the event loop's clock; what it reads goes on."""
        self.kept = kept
        self.request = kept.request
        self.model = kept.model
        self.created = kept.created
        self.fingerprint = kept.fingerprint
        self.prompt_tokens = kept.prompt_tokens
        self.after = after
        """Ordinal of the last event that was read."""
        self.is_attached = is_attached
        """Somebody else had asked for it."""
        self._max_backlog_bytes = max_backlog_bytes
        self._on_leave = on_leave
        self._until_s = until_s
        self._bell = Doorbell()

    @property
    def stream_id(self) -> str | None:
        """Under which it can be asked for again."""
        return self.kept.stream_id if self.kept.is_findable else None

    @property
    def is_overrun(self) -> bool:
        """Whether more is unread than may be."""
        return self.kept.recording.backlog_bytes(self.after) > self._max_backlog_bytes

    @property
    def is_at_end(self) -> bool:
        """Whether the terminal event has been read."""
        recording = self.kept.recording
        return recording.terminal is not None and self.after >= recording.last

    async def next_events(self) -> Sequence[Event]:
        """The next ones, at least one; nothing comes after a terminal one."""
        try:
            async with asyncio.timeout_at(self._until_s):
                events = await self.kept.recording.news(self._bell, lambda: self.after)
        except TimeoutError:
            return [Failed(deadline_exceeded())]
        except MissedError:
            message = "This stream was read too slowly; what it has missed is not kept any more."
            return [Failed(Problem(ProblemKind.CLIENT_CLOSED, message))]
        self._read(events)
        return events

    def hand_to(self, take: Callable[[Sequence[Event]], bool]) -> None:
        """As `Session.hand_to`."""
        self._bell.answer_by(lambda: self._hand(take))

    def _hand(self, take: Callable[[Sequence[Event]], bool]) -> bool:
        recording = self.kept.recording
        if recording.last > self.after:
            if recording.terminal is not None or self.after < recording.dropped:
                return False
            events = recording.since(self.after)
            if not take(events):
                return False
            self._read(events)
        return True

    def _read(self, events: Sequence[Event]) -> None:
        self.after += len(events)
        if isinstance(events[-1], Completed | Failed):
            self.kept.is_delivered = True
        elif self.kept.retention.stream and not self.kept.is_findable:
            # Whoever has begun to read comes back no more.
            self.kept.recording.drop_until(self.after)

    def cancel(self) -> None:
        """This client leaves. Idempotent."""
        self._on_leave(self)


def onlooker(kept: Kept) -> Attendance:
    """Somebody who looks at what there is and is no reader: for its generation nobody came or left."""
    return Attendance(
        kept, after=0, is_attached=True, max_backlog_bytes=0, on_leave=lambda _attendance: None
    )
