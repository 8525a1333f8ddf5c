"""One slot for a child, worker or prep alike: applies the table, performs its effects.

Synchronous and without a clock or a process of its own: both are asked of the `Desk`, so that any
order of events can be tried in a test. What the two programs do differently is in a `Program`.
"""

from typing import assert_never

from refloat.observe.log import get_logger
from refloat.supervisor.backoff import CrashBudget
from refloat.supervisor.child import Child
from refloat.supervisor.exits import Fault, explain_end, explain_exit
from refloat.supervisor.history import SlotHistory
from refloat.supervisor.inbox import (
    Alarm,
    Condemned,
    Item,
    LinkEnded,
    Order,
    ProcessEnded,
    Received,
)
from refloat.supervisor.knobs import Knobs
from refloat.supervisor.lifecycle import (
    INITIAL,
    LIVE,
    Effect,
    Step,
    WorkerEvent,
    WorkerState,
    transition,
)
from refloat.supervisor.loss_log import log_loss
from refloat.supervisor.program import Desk, Program
from refloat.supervisor.slot_witness import SlotWitness, Unwitnessed
from refloat.wire.faults import FaultKind
from refloat.wire.link import LinkEnd

_log = get_logger(__name__)

_ASKED = Fault(FaultKind.OPERATOR, "it was asked to leave")


class Slot:
    """State and child of one slot. `handle` is the only way in; one writer calls it."""

    def __init__(
        self,
        program: Program,
        desk: Desk,
        knobs: Knobs,
        *,
        model: str,
        witness: SlotWitness | None = None,
        budget: CrashBudget | None = None,
    ) -> None:
        """`budget` is one for all slots of a model; `None`: this slot has its own."""
        self._program = program
        self._desk = desk
        self._knobs = knobs
        self._witness = Unwitnessed() if witness is None else witness
        self._log = _log.bind(model=model, program=program.name)
        self.history = SlotHistory(budget or knobs.crash_budget(), desk.now_s())
        self.state: WorkerState = INITIAL[0]
        self.since_s = desk.now_s()
        self.child: Child | None = None
        self.worker_id = 0
        self.fault: Fault | None = None
        self.leave_s = knobs.leave_s
        self.is_stopping = False
        self.is_finished = False

    def start(self) -> None:
        """The first child. Call once."""
        self._enter(INITIAL)
        self._desk.set_alarm(Alarm.TICK, self._knobs.poll_s)

    def handle(self, item: Item) -> None:
        """Take one item. What comes from a child that is gone already changes nothing."""
        match item:
            case Received(worker_id, message):
                if self._is_live(worker_id):
                    self._take(self._program.receive(self.state, message))
            case LinkEnded(worker_id, end, detail):
                if self._is_live(worker_id):
                    self._take(self._explain_end(end, detail))
            case ProcessEnded(worker_id):
                self._process_ended(worker_id)
            case Condemned(fault, worker_id):
                if self.state in LIVE and worker_id in (None, self.worker_id):
                    self._take(fault)
            case Alarm():
                self._rang(item)
            case Order():
                self._obey(item)
            case _:
                assert_never(item)

    def _is_live(self, worker_id: int) -> bool:
        return worker_id == self.worker_id and self.state in LIVE

    def _take(self, outcome: WorkerEvent | Fault | None) -> None:
        if isinstance(outcome, Fault):
            self.fault = _ASKED if self.is_stopping else outcome
            if not self.is_stopping:
                self._witness.condemned(self.child, outcome, self.state)
            self._apply(WorkerEvent.FAULT)
        elif outcome is not None:
            self._apply(outcome)

    def _apply(self, event: WorkerEvent) -> None:
        self._enter(transition(self._program.table, self.state, event))

    def _enter(self, step: Step) -> None:
        state, effects = step
        before, now_s = self.state, self._desk.now_s()
        if state is not before:
            self.since_s = now_s
            self.history.moved(before, state, now_s)
        self.state = state
        if Effect.SPAWN in effects:  # the id is published before there can be news of it
            self.child, self.fault = None, None
        self._log.debug("slot_state", worker_id=self.worker_id, state=state, before=before)
        if state is not WorkerState.SPAWNING:
            self._program.changed()
        if state is not before:
            self._witness.moved(before, state)
        for effect in effects:
            self._perform(effect)
            self._witness.performed(effect, self.child)

    def _perform(self, effect: Effect) -> None:
        match effect:
            case Effect.SPAWN:
                self._spawn()
            case Effect.KILL:
                self._kill()
            case Effect.REAP:
                self._reap()
            case Effect.START_BACKOFF:
                delay_s = self._knobs.backoff.delay_s(self.history.series, self._desk.chance())
                self._desk.set_alarm(Alarm.BACKOFF, delay_s)
            case Effect.OPEN_BREAKER:
                self._desk.set_alarm(Alarm.COOLDOWN, self._knobs.cooldown_s)
            case Effect.CLEAR_BUDGET:
                self.history.clear()
            case Effect.ASK_TO_LEAVE:
                self._desk.set_alarm(Alarm.TERM, self.leave_s / 2)
                self._desk.set_alarm(Alarm.LEAVE, self.leave_s)
                self._forward(effect)
            case (
                Effect.SEND_CONFIGURE
                | Effect.SEND_PROBE
                | Effect.ANNOUNCE_READY
                | Effect.ANNOUNCE_SUSPECT
                | Effect.ANNOUNCE_WELL
                | Effect.ANNOUNCE_LOST
            ):
                self._forward(effect)
            case _:
                assert_never(effect)

    def _forward(self, effect: Effect) -> None:
        if self.child is not None:
            self._program.perform(effect, self.child, self.fault)

    def _spawn(self) -> None:
        for alarm in (Alarm.BACKOFF, Alarm.COOLDOWN):
            self._desk.drop_alarm(alarm)
        fault = self._program.veto()
        try:
            self.child = None if fault is not None else self._desk.spawn()
        except OSError as error:
            reason = f"the {self._program.name} process cannot be started: {error.strerror}"
            fault = Fault(FaultKind.LOAD_FAILED, reason)
        if self.child is not None:
            self.worker_id = self.child.worker_id
            self._log.debug("child_spawned", worker_id=self.worker_id, pid=self.child.pid)
        self._program.changed()
        if fault is not None:
            self._desk.post(Condemned(fault))

    def _kill(self) -> None:
        """SIGKILL, never a tidying up: what a broken engine's destructors touch may hang. Nobody
        waits for this, the replica was withdrawn before."""
        self._desk.drop_alarm(Alarm.TERM)
        self._desk.drop_alarm(Alarm.LEAVE)
        child, fault = self.child, self.fault
        if child is None or fault is None:
            return
        if child.process.has_exited() or not fault.deserves_grace:
            child.process.kill()
        else:
            if fault.kind is FaultKind.STALL:
                child.process.ask_for_stacks()
            self._desk.set_alarm(Alarm.GRACE, self._knobs.kill_grace_s)

    def _reap(self) -> None:
        if self.child is None or self.child.process.has_exited():
            self._reaped()
        else:
            self._desk.set_alarm(Alarm.REAP, self._knobs.reap_timeout_s)

    def _process_ended(self, worker_id: int) -> None:
        if worker_id != self.worker_id or self.child is None:
            return
        if self.state in LIVE:
            self._take(self._explain_exit(self.child))
        elif self.state is WorkerState.EXITED:
            self._reaped()
        elif self.state is WorkerState.STUCK:
            self._release(self.child)
            self._apply(WorkerEvent.RECLAIMED)

    def _reaped(self) -> None:
        self._desk.drop_alarm(Alarm.GRACE)
        self._desk.drop_alarm(Alarm.REAP)
        child = self.child
        if child is not None:
            if self.fault is not None and not self.fault.is_final_word:
                self.fault = self._explain_exit(child)
            self._release(child)
            log_loss(self._log, child, self.fault or _ASKED, was_asked=self.is_stopping)
        if self.fault is not None:
            self._witness.reaped(child, self.fault)
            self._program.explained(self.fault)
        if self.is_stopping:
            self._apply(WorkerEvent.GONE)
            self.is_finished = True
        elif self.fault is not None:
            self._apply(self.history.after(self._program.lost(self.fault)))

    def _explain_end(self, end: LinkEnd, detail: str) -> Fault:
        """EOF is known first, but the exit code, if there is one by now, says more."""
        fault = explain_end(self._program.name, end, detail)
        child = self.child
        if not fault.is_final_word and child is not None and child.process.has_exited():
            return self._explain_exit(child)
        return fault

    def _explain_exit(self, child: Child) -> Fault:
        code = child.process.exit_code()
        if code is None:
            return explain_end(self._program.name, LinkEnd.EOF, "closed")
        fault = explain_exit(self._program.name, code, we_killed=child.process.was_killed)
        return self._witness.explain(child, fault)

    def _release(self, child: Child) -> None:
        child.process.kill()  # what it had started, while the session is still its own
        child.process.reap()
        child.close()
        self.child = None

    def _rang(self, alarm: Alarm) -> None:
        """An alarm for a state that is over changes nothing."""
        child = self.child
        if alarm is Alarm.TICK:
            self._desk.set_alarm(Alarm.TICK, self._knobs.poll_s)
            if self.state in LIVE and child is not None and not self.is_stopping:
                self._take(self._program.look(self.state, child))
            return
        match alarm, self.state:
            case Alarm.BACKOFF, WorkerState.BACKOFF:
                self._apply(WorkerEvent.BACKOFF_OVER)
            case Alarm.COOLDOWN, WorkerState.FAILED:
                self._apply(WorkerEvent.COOLED_DOWN)
            case Alarm.LEAVE, WorkerState.DRAINING:
                self._take(_ASKED)
            case Alarm.REAP, WorkerState.EXITED:
                self._unreaped()
            case (Alarm.GRACE, WorkerState.EXITED) if child is not None:
                child.process.kill()
            case (Alarm.TERM, WorkerState.DRAINING) if child is not None:
                child.process.terminate()
            case _:
                pass

    def _unreaped(self) -> None:
        reason = f"the {self._program.name} process was killed and does not die"
        self.fault = Fault(FaultKind.UNKILLABLE, reason)
        self._program.lost(self.fault)
        self._apply(WorkerEvent.UNREAPED)
        self.is_finished = self.is_stopping

    def _obey(self, order: Order) -> None:
        match order:
            case Order.STOP:
                if self.is_stopping:
                    return
                self.is_stopping = True
                if self.state in LIVE:
                    self.fault = _ASKED
                waits_for_reaping = self.state in LIVE or self.state is WorkerState.EXITED
                self._apply(WorkerEvent.STOP)
                self.is_finished = not waits_for_reaping
            case Order.RESET:
                if self.state in (WorkerState.FAILED, WorkerState.BACKOFF) and not self.is_stopping:
                    self._apply(WorkerEvent.RESET)
            case _:
                assert_never(order)
