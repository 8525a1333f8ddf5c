"""Recorded generations of one gateway: who reads them, who finds them again, and when they are let go.

A generation is recorded where its client may come back for it: in a window for reconnecting, by an
idempotency key, or because its SDK tries again by itself. What is granted to whom is in `orphans.py`.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import NoReturn

from prometheus_client import Gauge

from refloat.config.schema import ServerConfig
from refloat.generation.budget import ByteBudget
from refloat.generation.claims import Claims
from refloat.generation.events import Completed, Event, Failed
from refloat.generation.kept import BASE_BYTES, Attendance, Kept
from refloat.generation.orphans import Windows, is_findable, is_kept, kept_after_end_s, stay_of
from refloat.generation.outcome import deadline_exceeded
from refloat.generation.replay import Recording
from refloat.generation.request import GenerationRequest, Retention
from refloat.generation.session import Session

Submit = Callable[[GenerationRequest], Awaitable[Session]]

_SWEEP_S = 0.1


class Streams:
    """Used on the event loop only."""

    def __init__(
        self,
        budget: ByteBudget,
        windows: Windows = Windows(),  # noqa: B008 - immutable
        *,
        replay_budget_bytes: int = 64 << 20,
        stream_buffer_bytes: int = 1 << 20,
        clock: Callable[[], float] = time.monotonic,
        gauge: Gauge | None = None,
    ) -> None:
        """`replay_budget_bytes`: of all answers that are complete and still kept; one of them gets a
        quarter of it. `stream_buffer_bytes`: how far behind a reader may be. `gauge`: of orphans."""
        self._budget = budget
        self._windows = windows
        self._replay_budget_bytes = replay_budget_bytes
        self._stream_buffer_bytes = stream_buffer_bytes
        self._clock = clock
        self._kept: dict[str, Kept] = {}
        self._claims = Claims()
        if gauge is not None:
            gauge.set_function(lambda: float(self.orphans))
        self._others_wait: Callable[[str, frozenset[Session]], bool] = lambda _model, _but: False

    def ask_for_room(self, others_wait: Callable[[str, frozenset[Session]], bool]) -> None:
        """`others_wait` says whether sessions of a model but those given wait for a place."""
        self._others_wait = others_wait

    @property
    def count(self) -> int:
        """Of recorded generations."""
        return len(self._kept)

    @property
    def orphans(self) -> int:
        """Generations under way that nobody reads."""
        return sum(kept.is_orphan for kept in self._kept.values())

    def wants(self, retention: Retention | None) -> bool:
        """Whether such a request comes through here at all."""
        return is_kept(retention, self._windows)

    # --- for clients ------------------------------------------------------------------------------

    async def open(self, request: GenerationRequest, submit: Submit) -> Attendance:
        """Begin a generation, or attach to the one that this request repeats. Raises `ProblemError`."""
        retention = request.retention or Retention()
        if retention.idempotency_key is not None:
            return await self._open_by_key(request, retention, retention.idempotency_key, submit)
        if retention.sdk_retry:
            for kept in self._claims.left_behind(request.tenant, retention.body_digest):
                if not kept.readers and not kept.is_delivered and self._is_whole(kept):
                    return self._attend(kept, 0, is_attached=True, until_s=_deadline_of(request))
        kept = await self._begin(request, retention, submit)
        if retention.sdk_retry is not None:
            self._claims.remember_body(kept)
        return self._attend(kept, 0, is_attached=False)

    def find(self, tenant: str, stream_id: str) -> Kept | None:
        """A recorded stream of this tenant, running or complete; `None`: not for this one to know."""
        kept = self._kept.get(stream_id)
        if kept is None or kept.tenant != tenant or not kept.is_findable:
            return None
        return kept

    def resume(self, kept: Kept, after: int) -> Attendance:
        """Read it once more from behind an event. Raises `MissedError`."""
        kept.recording.since(after)
        return self._attend(kept, after, is_attached=True)

    # --- time -------------------------------------------------------------------------------------

    async def run(self) -> NoReturn:
        """Let go of what is over, for ever. Essential: if this task ends, the process must."""
        while True:
            await asyncio.sleep(_SWEEP_S)
            self.sweep()

    def sweep(self) -> None:
        """End orphans whose time is over, and forget answers whose time is."""
        now_s = self._clock()
        for kept in list(self._kept.values()):
            if kept.session is not None:
                if kept.leave_at_s is not None and now_s >= kept.leave_at_s:
                    kept.session.cancel()
            elif not kept.readers and now_s >= self._forget_at_s(kept):
                self._forget(kept)
        for model in {kept.model for kept in self._kept.values() if kept.yields}:
            self.make_room(model)
        self._evict()

    def make_room(self, model: str) -> None:
        """Orphans that are only tolerated end if somebody of their model waits."""
        yielding = [k for k in self._kept.values() if k.yields and k.model == model]
        sessions = frozenset(kept.session for kept in yielding if kept.session is not None)
        if sessions and self._others_wait(model, sessions):
            for session in sessions:
                session.cancel()

    # --- within -----------------------------------------------------------------------------------

    async def _open_by_key(
        self, request: GenerationRequest, retention: Retention, key: str, submit: Submit
    ) -> Attendance:
        owner, until_s = (request.tenant, key), _deadline_of(request)
        while (claim := self._claims.find(owner, retention.body_digest)) is not None:
            # Bounded by what bounds the first one's submission; a refused one leaves its claim.
            try:
                async with asyncio.timeout_at(until_s):
                    found = await claim.settled()
            except TimeoutError:
                raise deadline_exceeded().raised() from None
            if found is not None and self._is_whole(found):
                return self._attend(found, 0, is_attached=True, until_s=until_s)
            if found is not None:
                self._claims.forget(found)
        with self._claims.taken(owner, retention.body_digest) as mine:
            kept = await self._begin(request, retention, submit)
            mine.settle(kept)
        return self._attend(kept, 0, is_attached=False)

    def _is_whole(self, kept: Kept) -> bool:
        """Whether somebody new would get all of it."""
        is_known = kept.stream_id in self._kept
        return is_known and not kept.has_failed and kept.recording.dropped == 0

    async def _begin(
        self, request: GenerationRequest, retention: Retention, submit: Submit
    ) -> Kept:
        session = await submit(request)
        # No `await` from here on: what the session says goes into the recording, whole.
        recording = Recording(self._budget.hold(BASE_BYTES), self._replay_budget_bytes // 4)
        kept = Kept(session, recording, retention)
        kept.is_findable = is_findable(retention, self._windows)
        self._kept[kept.stream_id] = kept

        def take(event: Event, size_bytes: int) -> None:
            recording.put(event, size_bytes)
            if isinstance(event, Completed | Failed):
                self._ended(kept)

        session.record(take)
        return kept

    def _attend(
        self, kept: Kept, after: int, *, is_attached: bool, until_s: float | None = None
    ) -> Attendance:
        attendance = Attendance(
            kept,
            after=after,
            is_attached=is_attached,
            max_backlog_bytes=self._stream_buffer_bytes,
            on_leave=self._left,
            until_s=until_s,
        )
        kept.readers.add(attendance)
        kept.is_orphan = kept.yields = False
        kept.leave_at_s = None
        return attendance

    def _left(self, attendance: Attendance) -> None:
        kept = attendance.kept
        if attendance not in kept.readers:
            return
        kept.readers.discard(attendance)
        if kept.readers:
            return
        session = kept.session
        if session is None:
            if self._clock() >= self._forget_at_s(kept):
                self._forget(kept)
            return
        others = Counter(
            k.leave_at_s is None
            for k in self._kept.values()
            if k.is_orphan and k.tenant == kept.tenant
        )
        has_begun = kept.retention.stream and attendance.after > 0
        stay = stay_of(
            kept.retention,
            self._windows,
            has_begun=has_begun,
            orphans=others[False],
            finishing=others[True],
        )
        if stay is None:
            session.cancel()
            return
        kept.is_orphan, kept.yields = True, stay.yields
        kept.leave_at_s = None if stay.for_s is None else self._clock() + stay.for_s
        if stay.yields:
            self.make_room(kept.model)

    def _ended(self, kept: Kept) -> None:
        """Its terminal event is in. A failure is not given to anybody who tries again."""
        kept.session = None
        kept.is_orphan = kept.yields = False
        kept.ended_s = self._clock()
        if kept.has_failed:
            self._claims.forget(kept)

    def _forget_at_s(self, kept: Kept) -> float:
        is_over = kept.is_delivered or kept.has_failed
        kept_s = kept_after_end_s(kept.retention, self._windows, is_delivered=is_over)
        return (kept.ended_s or 0.0) + kept_s

    def _forget(self, kept: Kept) -> None:
        del self._kept[kept.stream_id]
        self._claims.forget(kept)
        kept.recording.close()

    def _evict(self) -> None:
        """Complete answers beyond their budget: the oldest of the tenant who has most."""
        complete = [k for k in self._kept.values() if k.session is None and not k.readers]
        held = Counter[str]()
        for kept in complete:
            held[kept.tenant] += BASE_BYTES + kept.recording.held_bytes
        while held.total() > self._replay_budget_bytes:
            heaviest = max(held, key=lambda tenant: held[tenant])
            oldest = next(kept for kept in complete if kept.tenant == heaviest)
            complete.remove(oldest)
            held[heaviest] -= BASE_BYTES + oldest.recording.held_bytes
            self._forget(oldest)


def _deadline_of(request: GenerationRequest) -> float | None:
    """Of one who repeats a request, by the event loop's clock: that of the first is the session's."""
    if request.deadline_s is None:
        return None
    return asyncio.get_running_loop().time() + request.deadline_s


def streams_for(server: ServerConfig, budget: ByteBudget, gauge: Gauge) -> Streams:
    """As the settings say."""
    windows = Windows(
        reconnect_s=server.reconnect_window_s,
        retry_s=server.retry_window_s,
        replay_s=server.replay_window_s,
    )
    return Streams(
        budget,
        windows,
        replay_budget_bytes=server.replay_budget_bytes,
        stream_buffer_bytes=server.stream_buffer_bytes,
        gauge=gauge,
    )
