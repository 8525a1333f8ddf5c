"""Looks at one model's worker at every tick: page and processor time against the state's budget."""

import time
from collections.abc import Callable

from prometheus_client import Gauge

from refloat.supervisor.child import Child
from refloat.supervisor.exits import Fault
from refloat.supervisor.knobs import Knobs
from refloat.supervisor.lifecycle import WorkerEvent, WorkerState
from refloat.supervisor.watch import Budget, Reading, Verdict, Watch
from refloat.wire.faults import FaultKind
from refloat.wire.progress import Progress

#: Readings further apart than this many polls say that the gateway itself stood still.
_LONGEST_GAP_POLLS = 4.0


def budget_of(
    state: WorkerState, knobs: Knobs, *, load_timeout_s: float, stall_floor_s: float
) -> Budget:
    """The budget of a state. The probe is the first step, in which kernels are compiled, so it may
    use processor time for as long as a load may stand still."""
    match state:
        case WorkerState.SPAWNING:
            return Budget(knobs.hello_timeout_s, knobs.hello_timeout_s * knobs.load_cap_factor)
        case WorkerState.LOADING:
            return Budget(load_timeout_s, load_timeout_s * knobs.load_cap_factor)
        case WorkerState.PROBING:
            return Budget(stall_floor_s, max(load_timeout_s, knobs.step_cap_s))
        case _:
            return Budget(stall_floor_s, knobs.step_cap_s)


class WorkerWatch:
    """Watches whatever child stands in the slot; a new one is recognised by its id."""

    def __init__(
        self,
        knobs: Knobs,
        *,
        load_timeout_s: float,
        stall_floor_s: float,
        step_age: Gauge,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._knobs = knobs
        self._load_timeout_s = load_timeout_s
        self._stall_floor_s = stall_floor_s
        self._step_age = step_age
        self._clock = clock
        self._worker_id = 0
        self._watch = Watch(clock())

    def look(
        self, state: WorkerState, child: Child, *, has_pending: bool
    ) -> WorkerEvent | Fault | None:
        """What a reading means in this state; `None`: nothing."""
        now_s = self._clock()
        if child.worker_id != self._worker_id:
            self._worker_id = child.worker_id
            self._watch = Watch(now_s)
        try:
            progress = child.progress()
        except ValueError:
            return Fault(FaultKind.PROTOCOL, "the worker process scribbled on its progress page")
        reading = Reading(now_s, progress, child.process.cpu_s(), has_pending)
        budget = budget_of(
            state,
            self._knobs,
            load_timeout_s=self._load_timeout_s,
            stall_floor_s=self._stall_floor_s,
        )
        gap_s = self._knobs.poll_s * _LONGEST_GAP_POLLS
        verdict = self._watch.judge(reading, budget, longest_gap_s=gap_s)
        self._step_age.set(self._watch.page_still_s)
        return self._meaning(verdict, state, progress)

    def forget(self) -> None:
        """No child is there."""
        self._step_age.set(0)

    def _meaning(
        self, verdict: Verdict, state: WorkerState, progress: Progress | None
    ) -> WorkerEvent | Fault | None:
        if verdict is Verdict.STALLED:
            return Fault(FaultKind.STALL, self._describe(state, progress))
        if verdict is Verdict.LATE and state is WorkerState.READY:
            return WorkerEvent.LATE
        if verdict is Verdict.WELL and state is WorkerState.SUSPECT:
            return WorkerEvent.CAUGHT_UP
        return None

    def _describe(self, state: WorkerState, progress: Progress | None) -> str:
        doing = str(state) if progress is None else progress.phase.name.lower()
        step = "" if progress is None or not progress.step else f" (step {progress.step})"
        still_s = self._watch.still_s
        if still_s < self._watch.page_still_s:
            return (
                f"no progress for {self._watch.page_still_s:.1f} s while {doing}{step}, "
                "although it uses processor time"
            )
        return f"no progress for {still_s:.1f} s while {doing}{step}"
