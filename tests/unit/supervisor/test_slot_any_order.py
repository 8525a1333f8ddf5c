"""A worker's slot under any order of events that children, timers and operators can produce.

The slot and the worker's program are the real ones; processes, links and time are stood in for.
"""

from collections import deque
from typing import Any, cast

import msgspec
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from refloat.observe.metrics import Metrics
from refloat.observe.process_stat import ProcessStat
from refloat.supervisor.backoff import BackoffPolicy
from refloat.supervisor.child import Child
from refloat.supervisor.exits import Fault
from refloat.supervisor.fleet import ModelSnapshot, Rebuild, Replica, ReplicaLoss
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
from refloat.supervisor.lifecycle import LIVE, WorkerState
from refloat.supervisor.probe import ProbeStore
from refloat.supervisor.slot import Slot
from refloat.supervisor.spec_source import SpecSource
from refloat.supervisor.worker_program import WorkerProgram
from refloat.supervisor.worker_watch import WorkerWatch
from refloat.wire.faults import FaultKind
from refloat.wire.link import LinkEnd
from refloat.wire.messages import (
    PROTOCOL_VERSION,
    Add,
    Capabilities,
    EngineSpec,
    FaultFired,
    Hello,
    Loaded,
    LoadFailed,
    Output,
    Probed,
    Refused,
    SamplingParams,
    Step,
    WorkerFault,
)
from refloat.wire.problem import Problem, ProblemKind
from refloat.wire.progress import Phase, Progress

_SERVING = {WorkerState.READY, WorkerState.SUSPECT}

_MESSAGES: list[msgspec.Struct] = [
    Hello(PROTOCOL_VERSION, 1, "worker"),
    Hello(PROTOCOL_VERSION, 1, "prep"),
    Hello(PROTOCOL_VERSION + 1, 1, "worker"),
    Loaded(Capabilities(), 0.1),
    LoadFailed(FaultKind.LOAD_FAILED, "no"),
    LoadFailed(FaultKind.BAD_CONFIGURATION, "never"),
    Probed((1, 2, 3), None, 0.1),
    Probed((9,), None, 0.1),
    Step(1, (Output(1, 1, 0, (5,)),)),
    Step(2, (Output(1, 1, 1, (), None, "stop"),)),
    Refused(1, 1, Problem(ProblemKind.OVERLOADED, "full")),
    WorkerFault(FaultKind.STEP_FAULT, "raised", "stepping"),
    FaultFired(0),
]


class StandInProcess:
    """A process that ends when it is told to, and dies of SIGKILL unless it is unkillable."""

    def __init__(self, log: list[Any], worker_id: int) -> None:
        self.log, self.worker_id = log, worker_id
        self.code: int | None = None
        self.is_reaped = False
        self.was_killed = False
        self.is_unkillable = False
        self.cpu = 0.0

    def exit_code(self) -> int | None:
        return self.code

    def has_exited(self) -> bool:
        return self.code is not None

    def kill(self) -> None:
        self.log.append(("kill", self.worker_id))
        self.was_killed = self.was_killed or self.code is None
        if self.code is None and not self.is_unkillable:
            self.code = -9

    def terminate(self) -> None:
        self.log.append(("term", self.worker_id))

    def ask_for_stacks(self) -> None:
        assert self.code is None

    def reap(self) -> int | None:
        self.is_reaped = self.code is not None
        return self.code

    def stat(self) -> ProcessStat:
        return ProcessStat(self.cpu)

    def last_stderr(self) -> str:
        return ""

    def close(self) -> None:
        pass


class StandInChild:
    """A child whose page a test turns by hand."""

    def __init__(self, log: list[Any], worker_id: int) -> None:
        self.worker_id = worker_id
        self.pid = 10_000 + worker_id
        self.process = StandInProcess(log, worker_id)
        self.sent: list[msgspec.Struct] = []
        self.is_closed = False
        self.beats = 1
        self.is_scribbled = False

    def send(self, message: msgspec.Struct) -> None:
        self.sent.append(message)

    def progress(self) -> Progress | None:
        if self.is_scribbled:
            raise ValueError("scribbled")
        return Progress(Phase.STEPPING, 1, 1, 0, self.beats, ())

    def has_unread(self) -> bool:
        return False

    def close(self) -> None:
        self.is_closed = True


class StandInDesk:
    """Time by hand, alarms in a set, an inbox that a test empties when it likes."""

    def __init__(self, log: list[Any]) -> None:
        self.log = log
        self.time_s = 0.0
        self.alarms: dict[Alarm, float] = {}
        self.inbox: deque[Item] = deque()
        self.children: list[StandInChild] = []
        self.is_out_of_processes = False

    def now_s(self) -> float:
        return self.time_s

    def chance(self) -> float:
        return 0.5

    def spawn(self) -> Child:
        for child in self.children:
            assert child.process.is_reaped, "a child is started beside one that is not reaped"
            assert child.is_closed
        if self.is_out_of_processes:
            raise OSError(11, "Resource temporarily unavailable")
        child = StandInChild(self.log, len(self.children) + 1)
        self.children.append(child)
        return cast("Child", child)

    def set_alarm(self, alarm: Alarm, delay_s: float) -> None:
        assert delay_s >= 0
        self.alarms[alarm] = self.time_s + delay_s

    def drop_alarm(self, alarm: Alarm) -> None:
        self.alarms.pop(alarm, None)

    def post(self, item: Item) -> None:
        self.inbox.append(item)


class Witness:
    """A listener that checks the order it was promised."""

    def __init__(self, log: list[Any]) -> None:
        self.log = log
        self.replica: Replica | None = None
        self.is_suspect = False
        self.seen: set[int] = set()

    def replica_ready(self, replica: Replica) -> None:
        assert self.replica is None
        assert replica.worker_id not in self.seen
        self.seen.add(replica.worker_id)
        self.replica = replica
        self.is_suspect = False
        self.log.append(("ready", replica.worker_id))

    def replica_step(self, worker_id: int, step: Step) -> None:
        self._check(worker_id)

    def replica_refused(self, worker_id: int, refused: Refused) -> None:
        self._check(worker_id)

    def replica_suspect(self, worker_id: int, *, suspect: bool) -> None:
        self._check(worker_id)
        assert suspect is not self.is_suspect
        self.is_suspect = suspect
        self.log.append(("suspect" if suspect else "well", worker_id))

    def replica_lost(self, worker_id: int, loss: ReplicaLoss) -> Rebuild:
        self._check(worker_id)
        assert loss.reason
        self.replica = None
        self.log.append(("lost", worker_id))
        return Rebuild.SAME

    def model_changed(self, snapshot: ModelSnapshot) -> None:
        raise AssertionError("not told by a slot")

    def _check(self, worker_id: int) -> None:
        assert self.replica is not None
        assert self.replica.worker_id == worker_id


class NoFiles(ProbeStore):
    """Remembers in memory alone."""

    def __init__(self) -> None:
        self.known: dict[str, tuple[int, ...]] = {}

    def judge(self, key: str, ids: tuple[int, ...]) -> str | None:
        return None if self.known.setdefault(key, ids) == ids else "differs"

    def forget(self, key: str) -> None:
        self.known.pop(key, None)


class SlotMachine(RuleBasedStateMachine):
    """Everything that can reach a slot, in any order."""

    @initialize(limit=st.integers(1, 5))
    def begin(self, limit: int) -> None:
        self.log: list[Any] = []
        self.desk = StandInDesk(self.log)
        self.witness = Witness(self.log)
        knobs = Knobs(crash_limit=limit, backoff=BackoffPolicy(base_s=1.0), poll_s=1.0)
        metrics = Metrics()
        self.program = WorkerProgram(
            "m",
            SpecSource(EngineSpec(engine="scripted", model_path="", faults=({"at": "step"},))),
            "hash",
            listener=self.witness,
            metrics=metrics,
            watch=WorkerWatch(
                knobs,
                load_timeout_s=20.0,
                stall_floor_s=10.0,
                say_age=metrics.step_age_seconds.labels("m").set,
                clock=self.desk.now_s,
            ),
            probes=NoFiles(),
            on_change=self.published,
        )
        self.slot = Slot(self.program, self.desk, knobs, model="m")
        self.slot.start()

    def published(self) -> None:
        self.log.append(("state", self.slot.state))

    @property
    def child(self) -> StandInChild | None:
        return self.desk.children[-1] if self.desk.children else None

    # --- what children do --------------------------------------------------------------------------

    def says(self, message: msgspec.Struct) -> None:
        child = self.child
        if child is None or child.is_closed:
            return
        if not self.program.deliver(cast("Child", child), message):
            self.desk.post(Received(child.worker_id, message))

    @rule(message=st.sampled_from(_MESSAGES))
    def child_says(self, message: msgspec.Struct) -> None:
        self.says(message)

    @rule()
    def child_comes_up(self) -> None:
        self.handle_all()
        for message in (_MESSAGES[0], _MESSAGES[3], _MESSAGES[6]):
            self.says(message)
            self.handle_all()

    @rule(end=st.sampled_from(list(LinkEnd)))
    def link_ends(self, end: LinkEnd) -> None:
        if self.child is not None and not self.child.is_closed:
            self.desk.post(LinkEnded(self.child.worker_id, end, "detail"))

    @rule(code=st.sampled_from([0, 1, 70, 71, 72, 73, -9, -11]))
    def process_ends(self, code: int) -> None:
        child = self.child
        if child is None or child.process.code is not None:
            return
        child.process.code = code
        self.desk.post(ProcessEnded(child.worker_id))

    @rule()
    def killed_process_is_noticed(self) -> None:
        child = self.child
        if child is not None and child.process.code is not None and not child.is_closed:
            self.desk.post(ProcessEnded(child.worker_id))

    @rule(is_unkillable=st.booleans())
    def process_enters_or_leaves_the_kernel(self, is_unkillable: bool) -> None:
        child = self.child
        if child is None:
            return
        child.process.is_unkillable = is_unkillable
        if not is_unkillable and child.process.was_killed and child.process.code is None:
            self.process_ends(-9)

    @rule(cpu_s=st.sampled_from([0.0, 0.5]), beats=st.sampled_from([0, 0, 1]))
    def child_makes_progress(self, cpu_s: float, beats: int) -> None:
        if self.child is not None:
            self.child.process.cpu += cpu_s
            self.child.beats += beats

    @rule()
    def child_scribbles(self) -> None:
        if self.child is not None:
            self.child.is_scribbled = True

    @rule(fails=st.booleans())
    def machine_runs_out_of_processes(self, fails: bool) -> None:
        self.desk.is_out_of_processes = fails

    # --- what others do ----------------------------------------------------------------------------

    @rule()
    def prep_is_ready(self) -> None:
        self.program.set_vocab_size(100)

    @rule()
    def dispatch_adds(self) -> None:
        if self.witness.replica is not None:
            self.witness.replica.send(Add(1, 1, b"", 0, SamplingParams(max_tokens=4)))

    @rule(kind=st.sampled_from([FaultKind.BAD_CONFIGURATION, FaultKind.STALL]))
    def somebody_condemns(self, kind: FaultKind) -> None:
        self.desk.post(Condemned(Fault(kind, "said somebody")))

    @rule(order=st.sampled_from([Order.RESET, Order.RESET, Order.RESET, Order.STOP]))
    def operator_orders(self, order: Order) -> None:
        self.desk.post(order)

    @rule(seconds=st.sampled_from([0.5, 1.0, 5.0, 30.0, 100.0]))
    def time_passes(self, seconds: float) -> None:
        self.desk.time_s += seconds
        for alarm, due_s in sorted(self.desk.alarms.items(), key=lambda entry: entry[1]):
            if due_s <= self.desk.time_s:
                del self.desk.alarms[alarm]
                self.desk.post(alarm)

    @rule(alarm=st.sampled_from(list(Alarm)))
    def stale_alarm_is_handled(self, alarm: Alarm) -> None:
        """It was dropped when it was in the inbox already."""
        if alarm not in (Alarm.BACKOFF, Alarm.COOLDOWN, Alarm.REAP, Alarm.LEAVE):
            self.desk.post(alarm)

    @precondition(lambda self: self.desk.inbox)
    @rule()
    def handle_one(self) -> None:
        item = self.desk.inbox.popleft()
        if not self.slot.is_finished:
            self.slot.handle(item)

    @rule()
    def handle_all(self) -> None:
        while self.desk.inbox:
            self.handle_one()

    # --- what must hold ----------------------------------------------------------------------------

    @invariant()
    def ready_is_what_the_listener_holds(self) -> None:
        """Until an exit code says more, one that is lost is held as suspect."""
        if self.slot.state is WorkerState.EXITED:
            assert self.witness.replica is None or self.witness.is_suspect
            return
        assert (self.slot.state in _SERVING) == (self.witness.replica is not None)
        assert (self.slot.state is WorkerState.SUSPECT) == (
            self.witness.replica is not None and self.witness.is_suspect
        )

    @invariant()
    def last_published_is_the_truth(self) -> None:
        states = [entry[1] for entry in self.log if entry[0] == "state"]
        assert states[-1] is self.slot.state

    @invariant()
    def a_loss_is_published_before_it_is_told_and_nothing_is_sent_to_one_that_is_killed(
        self,
    ) -> None:
        state, ready, suspect = None, set[int](), set[int]()
        for what, value in self.log:
            if what == "state":
                state = value
            elif what == "ready":
                assert state is WorkerState.READY
                ready.add(value)
            elif what == "lost":
                assert state not in _SERVING
                ready.remove(value)
            elif what == "suspect":
                suspect.add(value)
            elif what == "well":
                suspect.remove(value)
            else:
                assert value not in ready - suspect

    @invariant()
    def no_child_is_forgotten(self) -> None:
        for child in self.desk.children[:-1]:
            assert child.process.is_reaped
        gone = (WorkerState.BACKOFF, WorkerState.FAILED)
        if self.slot.state in gone:
            assert self.slot.child is None
            assert all(child.process.is_reaped for child in self.desk.children)

    @invariant()
    def some_alarm_or_event_will_move_it_on(self) -> None:
        if self.slot.is_finished:
            return
        waits_for: dict[WorkerState, Alarm] = {
            WorkerState.BACKOFF: Alarm.BACKOFF,
            WorkerState.EXITED: Alarm.REAP,
            WorkerState.DRAINING: Alarm.LEAVE,
        }
        alarm = waits_for.get(self.slot.state, Alarm.TICK)
        assert alarm in self.desk.alarms or alarm in self.desk.inbox
        if self.slot.state in LIVE and self.slot.child is None:
            assert any(isinstance(item, Condemned) for item in self.desk.inbox) or (
                self.slot.state is WorkerState.DRAINING
            )

    def teardown(self) -> None:
        if not hasattr(self, "slot"):
            return
        self.desk.post(Order.STOP)
        for _ in range(10):
            self.handle_all()
            self.time_passes(100.0)
        assert self.slot.is_finished
        assert self.witness.replica is None
        for child in self.desk.children:
            assert child.process.is_reaped or self.slot.state is WorkerState.STUCK


TestSlotMachine = SlotMachine.TestCase
TestSlotMachine.settings = settings(
    max_examples=60, stateful_step_count=40, deadline=None, derandomize=True
)
