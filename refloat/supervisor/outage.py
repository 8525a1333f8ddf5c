"""One incident while it is under way: its record, and the times that only this process can read.

Pure: what happens is told with its time; what is told is in the record at once.
"""

from datetime import UTC, datetime

from refloat.observe.incident_record import Action, BatchEntry, Incident, Loss
from refloat.supervisor.child import Child
from refloat.supervisor.exits import Fault
from refloat.supervisor.lifecycle import WorkerState
from refloat.supervisor.replica import Share
from refloat.wire.progress import Phase, Progress

MAX_LOSSES = 20
MAX_ACTIONS = 200
_NS = 1e9
_BUSY = frozenset({Phase.LOADING, Phase.ADDING, Phase.STEPPING, Phase.SENDING, Phase.PROBING})


class Outage:
    """From a detection to READY, FAILED, STUCK or the end of the gateway."""

    def __init__(self, record: Incident, opened_s: float) -> None:
        self.record = record
        self.opened_s = opened_s
        self.lost_s = opened_s
        """When the last of its workers was lost."""
        self.is_counted = False
        self.is_external = False
        """Its first worker was ended by a signal from outside."""
        self.stderr = ""
        """Of its first worker."""

    @property
    def is_open(self) -> bool:
        """It lasts."""
        return self.record.closed is None

    @property
    def is_first(self) -> bool:
        """Only one worker was lost so far."""
        return self.record.losses_total <= 1

    def lose(self, child: Child | None, fault: Fault, state: WorkerState, now_s: float) -> None:
        """A worker of it is lost. After FAILED this is still the same incident."""
        self.lost_s = now_s
        record = self.record
        record.closed = record.outcome = record.duration_s = None
        loss = Loss(
            worker_id=0 if child is None else child.worker_id,
            pid=None if child is None else child.pid,
            cause=fault.kind,
            reason=fault.reason,
            state=state,
            at_s=self._at(now_s),
        )
        record.losses_total += 1
        record.losses = [*record.losses, loss][-MAX_LOSSES:]

    def settle(self, fault: Fault, exit_status: int | None) -> None:
        """The last of its workers is reaped, and its end known."""
        record = self.record
        if not record.losses:
            return
        last = record.losses[-1]
        record.losses[-1] = Loss(
            last.worker_id, last.pid, fault.kind, fault.reason, last.state, last.at_s, exit_status
        )
        if self.is_first:
            record.cause, record.reason, record.exit_status = fault.kind, fault.reason, exit_status

    def act(self, name: str, worker_id: int, begin_s: float, end_s: float) -> None:
        """Something was done, or waited for, between two times."""
        action = Action(name, worker_id, self._at(begin_s), round(max(0.0, end_s - begin_s), 6))
        self.record.actions = [*self.record.actions, action][-MAX_ACTIONS:]

    def note_progress(self, progress: Progress | None, shares: tuple[Share, ...]) -> None:
        """What the worker was doing when it was lost, and for whom."""
        record = self.record
        in_step = frozenset[int]()
        if progress is not None:
            record.phase, record.step = progress.phase.name.lower(), progress.step
            record.step_tokens = progress.tokens
            in_step = frozenset(progress.generations)
            if progress.phase in _BUSY:
                self.act("detect", record.worker_id, progress.begin_ns / _NS, self.opened_s)
        record.batch = tuple(
            BatchEntry(
                share.generation,
                share.prompt_tokens,
                share.emitted_tokens,
                share.generation in in_step,
            )
            for share in shares
        )

    def close(self, outcome: str, now_s: float) -> None:
        """The slot came out of it."""
        self.record.closed = utc_now()
        self.record.outcome = outcome
        self.record.duration_s = self._at(now_s)

    def _at(self, at_s: float) -> float:
        return round(at_s - self.opened_s, 6)


def utc_now() -> str:
    """ISO 8601 with milliseconds."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")
