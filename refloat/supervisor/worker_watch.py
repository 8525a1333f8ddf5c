"""Looks at one worker slot at every tick: page, processor and device time against a budget.

Also where the costs of steps are learnt: a step that was seen under way is timed when its frame comes.
"""

import time
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

from refloat.supervisor.child import Child
from refloat.supervisor.device_use import DeviceUse, read_device_use
from refloat.supervisor.exits import Fault
from refloat.supervisor.knobs import Knobs
from refloat.supervisor.lifecycle import WorkerEvent, WorkerState
from refloat.supervisor.prediction import StepCosts, StepShape, shape_of, step_budget
from refloat.supervisor.watch import Budget, Reading, Verdict, Watch
from refloat.wire.faults import FaultKind
from refloat.wire.progress import Phase, Progress

#: Readings further apart than this many polls say that the gateway itself stood still.
_LONGEST_GAP_POLLS = 4.0
_SERVING = (WorkerState.READY, WorkerState.SUSPECT)
#: The device is asked only about a worker that has stood still for this part of its floor.
_DEVICE_AFTER = 0.25
_NS = 1e9


class _Step(NamedTuple):
    """A step seen under way."""

    number: int
    shape: StepShape
    began_s: float


def budget_of(
    state: WorkerState, knobs: Knobs, *, load_timeout_s: float, stall_floor_s: float
) -> Budget:
    """The budget of a state outside a step. The probe is the first step, in which kernels are
    compiled, so it may use processor time for as long as a load may stand still."""
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
        say_age: Callable[[float], None],
        clock: Callable[[], float] = time.monotonic,
        device_use: Callable[[int], DeviceUse] = read_device_use,
    ) -> None:
        self._knobs = knobs
        self._load_timeout_s = load_timeout_s
        self._stall_floor_s = stall_floor_s
        self._say_age = say_age
        self._clock = clock
        self._read_device_use = device_use
        self._worker_id = 0
        self._watch = Watch(clock())
        self._costs = StepCosts()
        self._step: _Step | None = None
        self.compile_s: Callable[[tuple[int, ...]], float] = lambda generations: 0.0
        """Seconds of compiling that a batch is known to bring with it (grammars)."""

    def expect(self, costs: StepCosts) -> None:
        """A worker of the configuration that has these costs comes into the slot."""
        self._costs = costs

    def look(
        self, state: WorkerState, child: Child, *, has_pending: bool
    ) -> WorkerEvent | Fault | None:
        """What a reading means in this state; `None`: nothing."""
        now_s = self._clock()
        if child.worker_id != self._worker_id:
            self._worker_id, self._step = child.worker_id, None
            self._watch = Watch(now_s)
        try:
            progress = child.progress()
        except ValueError:
            return Fault(FaultKind.PROTOCOL, "the worker process scribbled on its progress page")
        self._note_step(state, progress)
        stat = child.process.stat()
        reading = Reading(
            now_s,
            progress,
            stat.cpu_s,
            has_pending,
            has_unread=child.has_unread(),
            device_use=self._device_use(child),
            is_stopped=stat.is_stopped,
        )
        budget = replace(self._budget(state, progress), stopped_s=self._stall_floor_s)
        poll_gap_s = self._knobs.poll_s * _LONGEST_GAP_POLLS
        verdict = self._watch.judge(
            reading,
            budget,
            longest_gap_s=min(poll_gap_s, self._stall_floor_s / 2),
        )
        self._say_age(self._watch.page_still_s)
        return self._meaning(verdict, state, progress, budget)

    def stepped(self, number: int) -> None:
        """The frame of a step has come."""
        step = self._step
        if step is not None and number >= step.number:
            self._step = None
            if number == step.number:
                self._costs.observe(step.shape, self._clock() - step.began_s)

    def forget(self) -> None:
        """No child is there."""
        self._step = None
        self._say_age(0)

    def _note_step(self, state: WorkerState, progress: Progress | None) -> None:
        if progress is None or progress.phase is not Phase.STEPPING or state not in _SERVING:
            return
        self._step = _Step(progress.step, shape_of(progress), progress.begin_ns / _NS)

    def _device_use(self, child: Child) -> DeviceUse | None:
        if self._watch.page_still_s < _DEVICE_AFTER * self._stall_floor_s:
            return None
        return self._read_device_use(child.pid)

    def _budget(self, state: WorkerState, progress: Progress | None) -> Budget:
        if progress is not None and progress.phase is Phase.STEPPING and state in _SERVING:
            return step_budget(
                self._stall_floor_s,
                self._knobs.step_cap_s,
                predicted_s=self._costs.predict(shape_of(progress)),
                compile_s=self.compile_s(progress.generations),
            )
        return budget_of(
            state,
            self._knobs,
            load_timeout_s=self._load_timeout_s,
            stall_floor_s=self._stall_floor_s,
        )

    def _meaning(
        self, verdict: Verdict, state: WorkerState, progress: Progress | None, budget: Budget
    ) -> WorkerEvent | Fault | None:
        if verdict is Verdict.STALLED:
            return Fault(FaultKind.STALL, self._describe(state, progress, budget))
        if verdict is Verdict.LATE and state is WorkerState.READY:
            return WorkerEvent.LATE
        if verdict is Verdict.WELL and state is WorkerState.SUSPECT:
            return WorkerEvent.CAUGHT_UP
        return None

    def _describe(self, state: WorkerState, progress: Progress | None, budget: Budget) -> str:
        doing = str(state) if progress is None else progress.phase.name.lower()
        step = "" if progress is None or not progress.step else f" (step {progress.step})"
        still_s = self._watch.still_s
        if self._watch.stopped_s:
            return f"stopped by a signal for {self._watch.stopped_s:.1f} s while {doing}{step}"
        if still_s <= budget.floor_s:
            return (
                f"no progress for {self._watch.page_still_s:.1f} s while {doing}{step}, "
                "although it uses processor or device time"
            )
        return f"no progress for {still_s:.1f} s while {doing}{step}"
