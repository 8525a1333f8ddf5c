"""The worker's side of a slot: what its messages mean, what it is told, how its progress is judged.

Tokens go straight from the link to the listener; everything else passes the slot's inbox.
"""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from refloat.faults.plan import spend
from refloat.observe.metrics import Metrics
from refloat.supervisor.child import Child
from refloat.supervisor.exits import Fault, explain_load_failed, explain_worker_fault
from refloat.supervisor.fleet import ReplicaListener, ReplicaLoss
from refloat.supervisor.hello import judge_hello, unexpected
from refloat.supervisor.history import Loss
from refloat.supervisor.incident_sources import Particulars
from refloat.supervisor.lifecycle import WORKER_TABLE, Effect, WorkerEvent, WorkerState
from refloat.supervisor.prediction import CostBook
from refloat.supervisor.probe import PROBE_TOKENS, ProbeStore, probe_key, probe_prompt
from refloat.supervisor.replica import WorkerReplica
from refloat.supervisor.worker_watch import WorkerWatch
from refloat.wire.faults import FaultKind
from refloat.wire.messages import (
    PROTOCOL_VERSION,
    Capabilities,
    Configure,
    EngineSpec,
    FaultFired,
    Hello,
    Loaded,
    LoadFailed,
    Probe,
    Probed,
    Refused,
    Shutdown,
    Step,
    WorkerFault,
    pack_ids,
)

_S = WorkerState
#: In a row; the first is given a second chance.
_WRONG_OUTPUTS = 2


class WorkerProgram:
    """Implements `program.Program` for one model's worker, and the hot path of its replica."""

    name = "worker"
    table = WORKER_TABLE

    def __init__(
        self,
        model: str,
        spec: EngineSpec,
        model_hash: str,
        *,
        listener: ReplicaListener,
        metrics: Metrics,
        watch: WorkerWatch,
        probes: ProbeStore,
        on_change: Callable[[], None],
    ) -> None:
        self.model = model
        self._spec = spec
        self._model_hash = model_hash
        self._listener = listener
        self._restart_counter = metrics.restarts
        self._watch = watch
        self._costs = CostBook()
        self._probes = probes
        self._on_change = on_change
        self.restarts: dict[FaultKind, int] = {}
        self.vocab_size: int | None = None
        self._wrong_outputs = 0
        self._replica: WorkerReplica | None = None
        self._had_progress = False
        self._is_idle = False
        """It was READY and owed nothing when it was withdrawn."""
        self._unprobed: Child | None = None
        self._owes_probe = False
        self._hello: Hello | None = None
        self.loaded: Loaded | None = None
        self.probed: Probed | None = None
        self.probe_key = ""
        self.incident_id: Callable[[], str | None] = lambda: None
        """Of the incident under way."""

    def set_vocab_size(self, vocab_size: int) -> None:
        """Prep knows the vocabulary: a worker that waits for its probe gets it now."""
        self.vocab_size = vocab_size
        child, self._unprobed = self._unprobed, None
        if child is not None:
            self._send_probe(child)

    def accept_probe(self) -> None:
        """The operator accepts whatever the next probe says."""
        self._wrong_outputs = 0
        if self.probe_key:
            self._probes.forget(self.probe_key)

    def particulars(self) -> Particulars:
        """What an incident says of the worker of the moment."""
        shares = () if self._replica is None else self._replica.shares
        return Particulars(self._spec, dict(self._versions), shares)

    # --- program.Program ---------------------------------------------------------------------------

    def deliver(self, child: Child, message: Any) -> bool:
        """Steps and refusals of a serving worker, and the fault plan's book-keeping."""
        replica = self._replica
        if replica is not None and replica.worker_id == child.worker_id:
            if isinstance(message, Step):
                replica.stepped(message)
                self._watch.stepped(message.number)
                self._listener.replica_step(child.worker_id, message)
                return True
            if isinstance(message, Refused):
                replica.refused(message)
                self._listener.replica_refused(child.worker_id, message)
                return True
        if isinstance(message, FaultFired):
            faults = spend(self._spec.faults, message.index)
            self._spec = msgspec.structs.replace(self._spec, faults=faults)
            return True
        return False

    def receive(self, state: WorkerState, message: Any) -> WorkerEvent | Fault | None:
        """Control messages, each legal in one state only."""
        match message:
            case Hello():
                self._hello, self.loaded, self.probed = message, None, None
                return judge_hello(self.name, state, message)
            case WorkerFault():
                return explain_worker_fault(message)
            case Loaded() if state is _S.LOADING:
                self.loaded = message
                return WorkerEvent.LOADED
            case LoadFailed() if state is _S.LOADING:
                return explain_load_failed(message)
            case Probed() if state is _S.PROBING and self._owes_probe:
                self._owes_probe = False
                return self._judge_probe(message)
            case _ if state is _S.DRAINING:
                return None
            case _:
                return unexpected(self.name, state, message)

    def perform(self, effect: Effect, child: Child, fault: Fault | None) -> None:
        """Configure, probe, announce, ask to leave."""
        match effect:
            case Effect.SEND_CONFIGURE:
                self._watch.expect(self._costs.of(self._spec))
                child.send(Configure(PROTOCOL_VERSION, child.worker_id, self._spec))
            case Effect.SEND_PROBE:
                if self.vocab_size is None:
                    self._unprobed = child
                else:
                    self._send_probe(child)
            case Effect.ANNOUNCE_READY:
                self._announce_ready(child)
            case Effect.ANNOUNCE_SUSPECT:
                self._listener.replica_suspect(child.worker_id, suspect=True)
            case Effect.ANNOUNCE_WELL:
                self._listener.replica_suspect(child.worker_id, suspect=False)
            case Effect.ANNOUNCE_LOST:
                self._announce_lost(fault)
            case Effect.ASK_TO_LEAVE:
                self._ask_to_leave(child)
            case _:
                raise ValueError(f"{effect} is the slot's own")

    def look(self, state: WorkerState, child: Child) -> WorkerEvent | Fault | None:
        """Whether it makes progress."""
        match state:
            case _S.PROBING:
                has_pending = self._owes_probe
            case _S.READY | _S.SUSPECT:
                has_pending = self._replica is not None and self._replica.owes
            case _:
                has_pending = True
        return self._watch.look(state, child, has_pending=has_pending)

    def lost(self, fault: Fault) -> Loss:
        """Count the loss; a second wrong output in a row, or a bad configuration, is hopeless."""
        self._unprobed, self._owes_probe, self._is_idle = None, False, False
        self.loaded, self.probed = None, None
        self._watch.forget()
        self.restarts[fault.kind] = self.restarts.get(fault.kind, 0) + 1
        self._restart_counter.labels(self.model, fault.kind).inc()
        had_progress, self._had_progress = self._had_progress, False
        if fault.kind is FaultKind.WRONG_OUTPUT:
            self._wrong_outputs += 1
        return Loss(
            had_progress,
            is_hopeless=fault.kind is FaultKind.BAD_CONFIGURATION
            or self._wrong_outputs >= _WRONG_OUTPUTS,
        )

    def changed(self) -> None:
        """Publish."""
        self._on_change()

    # --- within ------------------------------------------------------------------------------------

    @property
    def _versions(self) -> Mapping[str, str]:
        return {} if self._hello is None else self._hello.versions

    def _send_probe(self, child: Child) -> None:
        prompt = probe_prompt(self.vocab_size or 1)
        self._owes_probe = True
        child.send(Probe(pack_ids(prompt), PROBE_TOKENS))

    def _judge_probe(self, probed: Probed) -> WorkerEvent | Fault:
        self.probe_key = probe_key(self._spec, self._model_hash, self._versions)
        wrong = self._probes.judge(self.probe_key, probed.ids)
        if wrong is not None:
            return Fault(FaultKind.WRONG_OUTPUT, wrong)
        self._wrong_outputs = 0
        self.probed = probed
        return WorkerEvent.PROVED

    def _announce_ready(self, child: Child) -> None:
        cache = None if self.probed is None else self.probed.cache
        capabilities = Capabilities() if self.loaded is None else self.loaded.capabilities
        self._replica = WorkerReplica(
            child,
            cache=cache,
            capabilities=capabilities,
            max_num_seqs=min(self._spec.max_num_seqs, capabilities.capacity),
        )
        self._listener.replica_ready(self._replica)

    def _announce_lost(self, fault: Fault | None) -> None:
        replica, self._replica = self._replica, None
        if replica is None or fault is None:
            return
        replica.is_lost = True
        self._had_progress = replica.has_progressed
        self._is_idle = not replica.owes
        loss = ReplicaLoss(fault.kind, fault.reason, incident_id=self.incident_id())
        self._listener.replica_lost(replica.worker_id, loss)

    def _ask_to_leave(self, child: Child) -> None:
        """An idle worker is told; one that runs or loads would not listen in time."""
        if self._is_idle:
            child.send(Shutdown())
        else:
            child.process.terminate()
