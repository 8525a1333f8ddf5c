"""One of a model's worker slots with all that belongs to it: program, task, watch, incidents, its seat
among the spares, its device. What the slots of a model have in common comes as `Premises`.
"""

from collections.abc import Callable
from dataclasses import dataclass

from prometheus_client import Gauge

from refloat.config.schema import ModelConfig
from refloat.models.manifest import Manifest
from refloat.observe.metrics import Metrics
from refloat.supervisor.actor import SlotActor
from refloat.supervisor.child import ChildCommand
from refloat.supervisor.exits import Fault
from refloat.supervisor.fleet import ReplicaListener
from refloat.supervisor.host_share import HostShare
from refloat.supervisor.inbox import Condemned, Order
from refloat.supervisor.incident_log import IncidentLog
from refloat.supervisor.incident_sources import IncidentSources
from refloat.supervisor.knobs import Knobs
from refloat.supervisor.lifecycle import LIVE, WorkerState
from refloat.supervisor.loading import Loading
from refloat.supervisor.prediction import CostBook
from refloat.supervisor.probe import ProbeStore
from refloat.supervisor.rung_keeper import RungKeeper
from refloat.supervisor.slot import Slot
from refloat.supervisor.spares import Lineup, Seat
from refloat.supervisor.spec_source import SpecSource
from refloat.supervisor.worker_program import WorkerProgram
from refloat.supervisor.worker_watch import WorkerWatch
from refloat.wire.faults import FaultKind
from refloat.wire.messages import FromWorker


@dataclass(frozen=True)
class Premises:
    """What a model's slots have in common."""

    name: str
    config: ModelConfig
    manifest: Manifest
    source: SpecSource
    listener: ReplicaListener
    metrics: Metrics
    knobs: Knobs
    probes: ProbeStore
    incidents: IncidentSources
    host: HostShare
    rungs: RungKeeper


class Shared:
    """What the slots of one model share of their past."""

    def __init__(self, premises: Premises) -> None:
        self.budget = premises.knobs.crash_budget()
        self.costs = CostBook()
        self.ages = StepAges(premises.metrics.step_age_seconds.labels(premises.name))


class StepAges:
    """The age of the oldest step of a model; its watches each know one."""

    def __init__(self, gauge: Gauge) -> None:
        self._gauge = gauge
        self._ages_s: dict[int, float] = {}

    def of(self, number: int) -> Callable[[float], None]:
        """Where slot `number` says how old its step is."""

        def say(age_s: float) -> None:
            self._ages_s[number] = age_s
            self._gauge.set(max(self._ages_s.values()))

        return say


class WorkerUnit:
    """One slot and all that belongs to it. Implements `spares.Occupant`."""

    def __init__(
        self,
        number: int,
        premises: Premises,
        shared: Shared,
        lineup: Lineup,
        on_change: Callable[["WorkerUnit"], None],
    ) -> None:
        self.number = number
        self._premises = premises
        self._shared = shared
        self._lineup = lineup
        self._on_change = on_change
        self.seat: Seat = lineup.add_seat()
        self.seat.occupant = self
        self.is_started = number == 0
        self.vetoed: Fault | None = None
        self.loading = Loading(
            premises.name,
            premises.source,
            manifest=premises.manifest,
            gate=premises.host.gate,
            is_wanted=lambda: lineup.is_wanted(self.seat),
            on_change=lambda: on_change(self),
        )
        self.program = self._build_program()
        self.incidents = IncidentLog(
            premises.name,
            premises.config.device,
            premises.incidents,
            self.program.particulars,
            premises.metrics.incidents,
        )
        command = ChildCommand(
            argv=premises.knobs.worker_command,
            incoming=FromWorker,
            with_progress=True,
            max_pending_bytes=premises.knobs.worker_pending_bytes,
        )
        self.actor = SlotActor(
            self.program,
            command,
            premises.knobs,
            model=premises.name,
            witness=self.incidents,
            budget=shared.budget,
        )
        self.program.incident_id = lambda: self.incidents.open_id
        self.incidents.ear.condemn = self.actor.post

    @property
    def slot(self) -> Slot:
        """Its life."""
        return self.actor.slot

    @property
    def state(self) -> WorkerState:
        """Of the slot."""
        return self.slot.state

    @property
    def rung(self) -> int:
        """Of the ladder, on which its worker was or will be loaded."""
        return self.loading.next_spec.rung

    def has_exited(self) -> bool:
        """Whether its process has ended, handled or not."""
        child = self.slot.child
        return child is None or child.process.has_exited()

    def go_on(self) -> None:
        """Load now, if it waited to be wanted. A refusal is found at the slot's next look."""
        if self.state is WorkerState.LOADING:
            self.loading.go_on()

    def retire(self, reason: str) -> None:
        """Be replaced."""
        self.condemn(Fault(FaultKind.OPERATOR, reason))

    def condemn(self, fault: Fault) -> None:
        """End the child of the moment, if there is one."""
        if self.state in LIVE:
            self.actor.post(Condemned(fault, self.slot.worker_id))

    def note_stuck(self) -> None:
        """A worker that cannot be reaped holds its device."""
        slot, name = self.slot, self._premises.name
        if slot.state is WorkerState.STUCK and slot.child is not None:
            reason = (
                f"worker process {slot.child.pid} of model {name!r} was killed and does not die"
            )
            self._premises.host.quarantine.hold(slot.worker_id, self._device, reason)

    def released(self) -> None:
        """Some device has been released: what was not started for its sake is tried again."""
        if self.vetoed is not None and self.slot.fault is self.vetoed:
            self.actor.post(Order.RESET)

    @property
    def _device(self) -> str:
        return self._premises.source.current.device

    def _veto(self) -> Fault | None:
        """A device on which somebody else's worker is stuck. What this slot itself had left there is
        over once the slot may start again."""
        self._premises.host.quarantine.release(self.slot.worker_id)
        reason = self._premises.host.quarantine.reason(self._device)
        self.vetoed = None if reason is None else Fault(FaultKind.UNKILLABLE, reason)
        return self.vetoed

    def _build_program(self) -> WorkerProgram:
        premises, config = self._premises, self._premises.config
        watch = WorkerWatch(
            premises.knobs,
            load_timeout_s=config.load_timeout_s,
            stall_floor_s=config.stall_floor_s,
            say_age=self._shared.ages.of(self.number),
        )
        return WorkerProgram(
            premises.name,
            premises.source,
            premises.manifest.model_hash,
            listener=self.seat,
            metrics=premises.metrics,
            watch=watch,
            probes=premises.probes,
            on_change=lambda: self._on_change(self),
            loading=self.loading,
            costs=self._shared.costs,
            rungs=premises.rungs,
            veto=self._veto,
            on_lost=self._lineup.take_over,
        )
