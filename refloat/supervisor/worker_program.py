"""The worker's side of a slot: what its messages mean, what it is told, how its progress is judged.

Tokens go straight from the link to the listener; everything else passes the slot's inbox.
"""

from collections.abc import Callable, Mapping
from typing import Any

from refloat.observe.metrics import Metrics
from refloat.supervisor.child import Child
from refloat.supervisor.exits import Fault, explain_load_failed, explain_worker_fault
from refloat.supervisor.fleet import Rebuild, ReplicaListener
from refloat.supervisor.hello import judge_hello, unexpected
from refloat.supervisor.history import Loss
from refloat.supervisor.incident_sources import Particulars
from refloat.supervisor.lifecycle import WORKER_TABLE, Effect, WorkerEvent, WorkerState
from refloat.supervisor.loading import Loading
from refloat.supervisor.prediction import CostBook
from refloat.supervisor.probe import PROBE_TOKENS, ProbeStore, probe_key, probe_prompt
from refloat.supervisor.replica import WorkerReplica
from refloat.supervisor.rung_keeper import RungKeeper
from refloat.supervisor.slots import slots_for
from refloat.supervisor.spec_source import SpecSource
from refloat.supervisor.withdrawal import Withdrawal
from refloat.supervisor.worker_watch import WorkerWatch
from refloat.wire.faults import FaultKind
from refloat.wire.messages import (
    Capabilities,
    FaultFired,
    FaultSpent,
    Hello,
    Loaded,
    LoadFailed,
    Primed,
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
#: Another worker would end the same way, until an operator or another device helps.
_HOPELESS = frozenset({FaultKind.BAD_CONFIGURATION, FaultKind.UNKILLABLE})
#: Nothing went wrong in the worker itself.
_UNCHARGED = frozenset({FaultKind.OPERATOR, FaultKind.UNKILLABLE, FaultKind.MEMORY_LIMIT})


class WorkerProgram:
    """Implements `program.Program` for one model's worker, and the hot path of its replica."""

    name = "worker"
    table = WORKER_TABLE

    def __init__(
        self,
        model: str,
        source: SpecSource,
        model_hash: str,
        *,
        listener: ReplicaListener,
        metrics: Metrics,
        watch: WorkerWatch,
        probes: ProbeStore,
        on_change: Callable[[], None],
        loading: Loading | None = None,
        costs: CostBook | None = None,
        rungs: RungKeeper | None = None,
        veto: Callable[[], Fault | None] = lambda: None,
        on_lost: Callable[[], None] = lambda: None,
    ) -> None:
        """`veto`: why no worker may be started now. `on_lost`: called when the listener was told of a
        loss and everything that follows from it for the next worker was taken in."""
        self.model = model
        self._source = source
        self._loading = Loading(model, source) if loading is None else loading
        self.veto = veto
        self._on_lost = on_lost
        self._model_hash = model_hash
        self._listener = listener
        self._rungs = rungs
        self._withdrawal = Withdrawal(listener, rungs)
        self._restart_counter = metrics.restarts
        self._watch = watch
        self._costs = CostBook() if costs is None else costs
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

    def tell_spent(self, child: Child, index: int) -> None:
        """Another worker of the model has fired this entry of the fault plan. Whoever is not told to
        load yet will be told what is left of the plan."""
        if self._loading.was_told(child):
            child.send(FaultSpent(index))

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
        return Particulars(self._loading.spec, dict(self._versions), shares)

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
            self._source.spent(child.worker_id, message.index)
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
            case Primed() if state is _S.LOADING:
                return None
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
                self._loading.begin(child)
            case Effect.SEND_PROBE:
                if self.vocab_size is None:
                    self._unprobed = child
                else:
                    self._send_probe(child)
            case Effect.ANNOUNCE_READY:
                self._announce_ready(child)
            case Effect.ANNOUNCE_SUSPECT:
                self._announce_suspect(suspect=True)
            case Effect.ANNOUNCE_WELL:
                self._announce_suspect(suspect=False)
            case Effect.ANNOUNCE_LOST:
                self._announce_lost(child, fault)
            case Effect.ASK_TO_LEAVE:
                self._ask_to_leave(child)
            case _:
                raise ValueError(f"{effect} is the slot's own")

    def look(self, state: WorkerState, child: Child) -> WorkerEvent | Fault | None:
        """Whether it makes progress. One that was not told to load yet cannot."""
        if self._loading.is_waiting:
            return self._loading.go_on()
        match state:
            case _S.PROBING:
                has_pending = self._owes_probe
            case _S.READY | _S.SUSPECT:
                has_pending = self._replica is not None and self._replica.owes
            case _:
                has_pending = True
        return self._watch.look(state, child, has_pending=has_pending)

    def explained(self, fault: Fault) -> None:
        """Tell the listener, if it was told only that the replica is suspect."""
        if self._withdrawal.end(fault, self.incident_id()):
            self._on_lost()

    def lost(self, fault: Fault) -> Loss:
        """Count the loss; a second wrong output in a row, or a bad configuration, is hopeless. What a
        suspect did while it was alone is not charged to the model."""
        self.explained(fault)
        is_hopeless = fault.kind in _HOPELESS
        if self.probed is None and self._rungs is not None:
            is_hopeless &= not self._rungs.load_failed(self._loading.spec, fault)
        self._unprobed, self._owes_probe, self._is_idle = None, False, False
        self._loading.over()
        self.loaded, self.probed = None, None
        self._watch.forget()
        self.restarts[fault.kind] = self.restarts.get(fault.kind, 0) + 1
        self._restart_counter.labels(self.model, fault.kind).inc()
        had_progress, self._had_progress = self._had_progress, False
        if fault.kind is FaultKind.WRONG_OUTPUT:
            self._wrong_outputs += 1
        return Loss(
            had_progress,
            is_charged=fault.kind not in _UNCHARGED
            and self._withdrawal.take_rebuild() is Rebuild.SAME,
            is_hopeless=is_hopeless or self._wrong_outputs >= _WRONG_OUTPUTS,
            opens_breaker=fault is self._loading.refusal,
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
        self.probe_key = probe_key(self._loading.spec, self._model_hash, self._versions)
        wrong = self._probes.judge(self.probe_key, probed.ids)
        if wrong is not None:
            return Fault(FaultKind.WRONG_OUTPUT, wrong)
        self._wrong_outputs = 0
        self.probed = probed
        return WorkerEvent.PROVED

    def _announce_ready(self, child: Child) -> None:
        self._watch.expect(self._costs.of(self._loading.spec))
        cache = None if self.probed is None else self.probed.cache
        capabilities = Capabilities() if self.loaded is None else self.loaded.capabilities
        self._loading.proved(capabilities.step_tokens)
        self._replica = WorkerReplica(
            child,
            cache=cache,
            capabilities=capabilities,
            max_num_seqs=min(slots_for(self._loading.spec, cache), capabilities.capacity),
        )
        self._watch.compile_s = self._replica.compile_s
        self._listener.replica_ready(self._replica)

    def _announce_suspect(self, *, suspect: bool) -> None:
        if self._replica is not None:
            self._replica.is_suspect = suspect
            self._listener.replica_suspect(self._replica.worker_id, suspect=suspect)

    def _announce_lost(self, child: Child, fault: Fault | None) -> None:
        replica, self._replica = self._replica, None
        if replica is None or fault is None:
            return
        self._withdrawal.begin(replica, child, is_explained=fault.is_final_word)
        self._had_progress = replica.has_progressed
        self._is_idle = not replica.owes
        if fault.is_final_word:
            self.explained(fault)

    def _ask_to_leave(self, child: Child) -> None:
        """An idle worker is told; one that runs or loads would not listen in time."""
        if self._is_idle:
            child.send(Shutdown())
        else:
            child.process.terminate()
