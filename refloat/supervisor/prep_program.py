"""The prep side of a slot: what its messages mean, how its jobs are sent, timed, replayed, blamed."""

import time
from collections.abc import Callable
from typing import Any

from refloat.supervisor.child import Child
from refloat.supervisor.exits import Fault
from refloat.supervisor.hello import judge_hello, unexpected
from refloat.supervisor.history import Loss
from refloat.supervisor.knobs import Knobs
from refloat.supervisor.lifecycle import PREP_TABLE, Effect, WorkerEvent, WorkerState
from refloat.supervisor.prep_jobs import Job, JobLine
from refloat.supervisor.watch import Budget, Reading, Verdict, Watch
from refloat.wire.faults import FaultKind
from refloat.wire.messages import Hello
from refloat.wire.prep_messages import (
    Guided,
    GuideJob,
    PrepConfigure,
    PrepFailed,
    PrepReady,
    PrepRefused,
    Text,
    Tokens,
)
from refloat.wire.problem import Problem, ProblemError, ProblemKind

_S = WorkerState
_LONGEST_GAP_POLLS = 4.0
_ANSWERS = Tokens | Text | Guided | PrepRefused
#: Prep processes that a job may take with it.
_JOB_LOSSES = 2
#: The same of one for a grammar, which may have been in work while another one did it.
_GUIDE_LOSSES = 3


class PrepProgram:
    """Implements `program.Program` for one model's prep process."""

    name = "prep"
    table = PREP_TABLE

    def __init__(
        self,
        configure: PrepConfigure,
        knobs: Knobs,
        *,
        on_change: Callable[[], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._configure = configure
        self._knobs = knobs
        self._on_change = on_change
        self._clock = clock
        self._watch = Watch(clock())
        self._watched_id = 0
        self._looked_s = clock()
        self._stopped_s = 0.0
        """How long prep has been stopped (SIGSTOP) while it had a job."""
        self._child: Child | None = None
        self._had_progress = False
        self._is_job_to_blame = False
        self.line = JobLine()
        self.guides = JobLine()
        """Those that prep does beside the others, and watches by itself."""
        self.ready_info: PrepReady | None = None

    @property
    def is_serving(self) -> bool:
        """Whether jobs are being sent."""
        return self._child is not None

    def submit(self, job: Job) -> None:
        """Take a job; it is sent when its turn comes."""
        self._line_of(job).add(job)
        self._send_some()

    def give_up(self, job: Job) -> None:
        """Nobody waits for it any more."""
        self._line_of(job).give_up(job)

    def fail_all(self, problem: Problem) -> None:
        """No prep will come any more."""
        for job in (*self.line.clear(), *self.guides.clear()):
            _settle(job, problem)

    # --- program.Program ---------------------------------------------------------------------------

    def deliver(self, child: Child, message: Any) -> bool:
        """Answers, while prep serves."""
        if child is not self._child or not isinstance(message, _ANSWERS):
            return False
        self._had_progress = True
        job = self.line.take(message.job) or self.guides.take(message.job)
        if job is not None and not job.answer.done():
            if isinstance(message, PrepRefused):
                job.answer.set_exception(message.problem.raised())
            else:
                job.answer.set_result(message)
        self._send_some()
        return True

    def veto(self) -> Fault | None:
        """Nothing: it runs on the host's processor."""
        return None

    def receive(self, state: WorkerState, message: Any) -> WorkerEvent | Fault | None:
        """Control messages, each legal in one state only."""
        match message:
            case Hello():
                return judge_hello(self.name, state, message)
            case PrepReady() if state is _S.LOADING:
                self.ready_info = message
                return WorkerEvent.LOADED
            case PrepFailed() if state is _S.LOADING:
                return Fault(FaultKind.BAD_CONFIGURATION, message.message)
            case _ if state is _S.DRAINING:
                return None
            case _:
                return unexpected(self.name, state, message)

    def perform(self, effect: Effect, child: Child, fault: Fault | None) -> None:
        """Configure, send the waiting jobs, take them back, ask to leave."""
        match effect:
            case Effect.SEND_CONFIGURE:
                child.send(self._configure)
            case Effect.ANNOUNCE_READY:
                self._child, self._stopped_s = child, 0.0
                self._send_some()
            case Effect.ANNOUNCE_LOST:
                self._child = None
                self._recall(fault)
            case Effect.ASK_TO_LEAVE:
                child.process.terminate()  # it holds nothing that wants tidying up
            case _:
                raise ValueError(f"{effect} is the slot's own or a worker's")

    def look(self, state: WorkerState, child: Child) -> WorkerEvent | Fault | None:
        """Whether it starts, or comes back from the job that it is at."""
        now_s = self._clock()
        gap_s = self._knobs.poll_s * _LONGEST_GAP_POLLS
        elapsed_s, self._looked_s = min(now_s - self._looked_s, gap_s), now_s
        if state is _S.READY:
            return self._judge_head(child, elapsed_s)
        if child.worker_id != self._watched_id:
            self._watched_id = child.worker_id
            self._watch = Watch(now_s)
        floor_s = self._knobs.prep_load_timeout_s
        if state is _S.SPAWNING:
            floor_s = self._knobs.hello_timeout_s
        cap_s = floor_s * self._knobs.load_cap_factor
        budget = Budget(floor_s, cap_s, stopped_s=self._knobs.prep_job_limit_s)
        stat = child.process.stat()
        reading = Reading(now_s, None, stat.cpu_s, has_pending=True, is_stopped=stat.is_stopped)
        if self._watch.judge(reading, budget, longest_gap_s=gap_s) is Verdict.STALLED:
            return Fault(FaultKind.STALL, f"the prep process makes no progress while {state}")
        return None

    def explained(self, fault: Fault) -> None:
        """Nothing follows: its jobs were recalled when it was lost."""

    def lost(self, fault: Fault) -> Loss:
        """A loss that a job is to blame for is charged to that job, not to the model: else a few
        hostile requests could open the breaker for everybody."""
        had_progress, self._had_progress = self._had_progress, False
        blames_job, self._is_job_to_blame = self._is_job_to_blame, False
        return Loss(
            had_progress,
            is_charged=not blames_job,
            is_hopeless=fault.kind is FaultKind.BAD_CONFIGURATION,
        )

    def changed(self) -> None:
        """Publish."""
        self._on_change()

    # --- within ------------------------------------------------------------------------------------

    def _send_some(self) -> None:
        if self._child is not None:
            self.line.send_some(self._child.send)
            if not self._tries_a_suspect:
                self.guides.send_some(self._child.send)

    @property
    def _tries_a_suspect(self) -> bool:
        """Whether the first of the line was at work when a prep was lost: if it takes another one with
        it, nobody else is to be suspected."""
        head = self.line.head
        return head is not None and head.losses > 0

    def _line_of(self, job: Job) -> JobLine:
        return self.guides if isinstance(job.message, GuideJob) else self.line

    def _judge_head(self, child: Child, elapsed_s: float) -> Fault | None:
        """Time in which somebody has stopped the process is not the job's."""
        head = self.line.head
        limit_s = self._knobs.prep_job_limit_s
        if head is not None and child.process.stat().is_stopped:
            self._stopped_s += elapsed_s
            if self._stopped_s <= limit_s:
                return None
            return Fault(FaultKind.STALL, "the prep process was stopped", is_external=True)
        self._stopped_s = 0.0
        self.line.watched(elapsed_s)
        if head is None or self.line.head_age_s <= limit_s:
            return None
        self.line.take(head.number)
        self._is_job_to_blame = True
        sentence = f"{head.what} took longer than {limit_s:g} seconds"
        _settle(head, Problem(ProblemKind.INVALID_REQUEST, f"{sentence}."))
        return Fault(FaultKind.STALL, f"{sentence}: the prep process hangs")

    def _recall(self, fault: Fault | None) -> None:
        """All jobs are sent again to the next prep; those it was at only so often."""
        making, head = self.guides.recall(), self.line.recall()
        if self._is_job_to_blame:  # the hanging one is out of the line; who was next did nothing
            return
        if fault is not None and _is_nobodys(fault):
            return
        if head is not None:
            self._suspect(head, _JOB_LOSSES)
        if making is not None:
            self._suspect(making, _GUIDE_LOSSES if head is not None else _JOB_LOSSES)

    def _suspect(self, job: Job, most: int) -> None:
        self._is_job_to_blame = True
        job.losses += 1
        if job.losses >= most:
            self._line_of(job).give_up(job)
            text = f"Preparing this request ended its process {job.losses} times: {job.what}."
            _settle(job, Problem(ProblemKind.POISON_REQUEST, text))


def _is_nobodys(fault: Fault) -> bool:
    """Whether it is known that no job is to blame."""
    return fault.is_external or fault.kind is FaultKind.OPERATOR


def _settle(job: Job, problem: Problem) -> None:
    if not job.answer.done():
        job.answer.set_exception(ProblemError(problem))
