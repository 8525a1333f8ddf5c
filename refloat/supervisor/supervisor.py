"""One model's supervisor: its worker slot, its prep process, and the snapshot of the two.

The two slots run as one task each; whatever changes in either is published from here, in one piece,
before anybody is told of it.
"""

import asyncio

from refloat.config.home import probes_dir
from refloat.config.schema import ModelConfig
from refloat.models.manifest import Manifest
from refloat.observe.metrics import Metrics
from refloat.supervisor.actor import SlotActor
from refloat.supervisor.availability import availability_of
from refloat.supervisor.child import ChildCommand
from refloat.supervisor.exits import Fault
from refloat.supervisor.facts import build_facts
from refloat.supervisor.fleet import (
    Availability,
    Fleet,
    ModelFacts,
    ModelSnapshot,
    ReplicaListener,
    WorkerSnapshot,
)
from refloat.supervisor.inbox import Condemned, Order
from refloat.supervisor.incident_log import IncidentLog
from refloat.supervisor.incident_sources import IncidentSources, default_sources
from refloat.supervisor.knobs import Knobs
from refloat.supervisor.lifecycle import LIVE, WorkerState
from refloat.supervisor.prep_process import PrepProcess
from refloat.supervisor.probe import ProbeStore
from refloat.supervisor.spec import build_prep_configure, build_spec, context_limit, log_spec
from refloat.supervisor.worker_program import WorkerProgram
from refloat.supervisor.worker_watch import WorkerWatch
from refloat.wire.faults import FaultKind
from refloat.wire.messages import FromWorker
from refloat.wire.paths import without_folders

#: What evidence may cost the end of a supervisor.
_WRITE_INCIDENTS_S = 5.0
_SETTLED = frozenset({Availability.READY, Availability.FAILED})
#: Nothing passes by itself that has one of these causes.
_LASTING = frozenset({FaultKind.BAD_CONFIGURATION, FaultKind.WRONG_OUTPUT, FaultKind.UNKILLABLE})


class UnknownContextLengthError(ValueError):
    """Nothing says how many tokens the model can take, so no request could be judged."""


class ModelSupervisor:
    """Owns one model's children. Raises `UnknownContextLengthError` when it is built."""

    def __init__(
        self,
        *,
        name: str,
        created: int,
        config: ModelConfig,
        manifest: Manifest,
        model_path: str,
        listener: ReplicaListener,
        fleet: Fleet,
        metrics: Metrics,
        knobs: Knobs | None = None,
        probes: ProbeStore | None = None,
        incidents: IncidentSources | None = None,
    ) -> None:
        knobs = (Knobs() if knobs is None else knobs).for_floor(config.stall_floor_s)
        limit = context_limit(config, manifest)
        if limit is None:
            raise UnknownContextLengthError(
                f"model {name!r}: its files do not tell the context length; set context_length"
            )
        self.name = name
        self._created = created
        self._config = config
        self._manifest = manifest
        self._context_limit = limit
        self._listener = listener
        self._fleet = fleet
        self._metrics = metrics
        self._knobs = knobs
        self._spec = build_spec(config, manifest, model_path)
        self._is_running = False
        self._is_draining = False
        self._is_stopping = False
        self._facts: ModelFacts | None = None
        self._last_fault: Fault | None = None
        self._availability: Availability | None = None
        self._outcome = asyncio.Event()
        self.prep = PrepProcess(
            name, build_prep_configure(config, model_path), knobs, on_change=self._prep_changed
        )
        self._program = self._build_program(probes)
        command = ChildCommand(
            argv=knobs.worker_command,
            incoming=FromWorker,
            with_progress=True,
            max_pending_bytes=knobs.worker_pending_bytes,
        )
        sources = default_sources() if incidents is None else incidents
        self.incidents = IncidentLog(
            name, config.device, sources, self._program.particulars, metrics.incidents
        )
        self._actor = SlotActor(self._program, command, knobs, model=name, witness=self.incidents)
        self._program.incident_id = lambda: self.incidents.open_id
        self.incidents.ear.condemn = self._actor.post

    async def run(self) -> None:
        """Keep the model up until `stop`. Raises if supervision itself breaks; the gateway must
        not survive that."""
        log_spec(self.name, self._config, self._spec)
        self._is_running = True
        self._publish()
        try:
            async with asyncio.TaskGroup() as slots:
                slots.create_task(self._actor.run(), name=f"{self.name}-worker-slot")
                slots.create_task(self.prep.run(), name=f"{self.name}-prep-slot")
        finally:
            self._is_running = False
            self._outcome.set()
            await self.incidents.finish(_WRITE_INCIDENTS_S)

    def announce_draining(self) -> None:
        """The model takes no new work from now on; its children go on until `stop`."""
        self._is_draining = True
        self._publish()

    async def stop(self, deadline_s: float) -> None:
        """End both children: asked, then SIGTERM, and SIGKILL after `deadline_s`. Generations have
        been drained before."""
        self._is_stopping = True
        self._publish()
        if self._is_running:
            await asyncio.gather(self._actor.stop(deadline_s), self.prep.stop(deadline_s))

    async def wait_first_outcome(self) -> ModelSnapshot:
        """The snapshot once the model was READY or FAILED for the first time, or `run` is over."""
        await self._outcome.wait()
        return self._snapshot()

    def reset(self, *, accept_probe: bool = False) -> bool:
        """The operator says: try again, now. Whether anything was down. `accept_probe`: what the
        next probe says is right from now on."""
        if accept_probe:
            self._program.accept_probe()
        down = (WorkerState.FAILED, WorkerState.BACKOFF)
        was_down = self._actor.slot.state in down or self.prep.slot.state in down
        self.prep.reset()
        self._actor.post(Order.RESET)
        return was_down

    # --- within ------------------------------------------------------------------------------------

    def _build_program(self, probes: ProbeStore | None) -> WorkerProgram:
        watch = WorkerWatch(
            self._knobs,
            load_timeout_s=self._config.load_timeout_s,
            stall_floor_s=self._config.stall_floor_s,
            step_age=self._metrics.step_age_seconds.labels(self.name),
        )
        return WorkerProgram(
            self.name,
            self._spec,
            self._manifest.model_hash,
            listener=self._listener,
            metrics=self._metrics,
            watch=watch,
            probes=ProbeStore(probes_dir()) if probes is None else probes,
            on_change=self._worker_changed,
        )

    def _prep_changed(self) -> None:
        info = self.prep.ready_info
        if info is not None:
            self._program.set_vocab_size(info.vocab_size)
        self._publish()
        self._end_useless_worker()

    def _worker_changed(self) -> None:
        self._publish()
        self._end_useless_worker()

    def _end_useless_worker(self) -> None:
        """A model that can never tokenize needs no worker."""
        fault = self.prep.slot.fault
        is_hopeless = fault is not None and fault.kind is FaultKind.BAD_CONFIGURATION
        if self.prep.slot.state is not WorkerState.FAILED or not is_hopeless or fault is None:
            return
        if self._actor.slot.state in LIVE and not self._is_stopping:
            self._actor.post(Condemned(fault))

    def _publish(self) -> None:
        slot = self._actor.slot
        if slot.state is WorkerState.READY:
            self._facts = self._build_facts()
            self._last_fault = None
        elif slot.fault is not None:
            self._last_fault = slot.fault
        for state in WorkerState:
            gauge = self._metrics.worker_state.labels(self.name, state)
            gauge.set(1 if state is slot.state else 0)
        snapshot = self._snapshot()
        self._fleet.publish(snapshot)
        if snapshot.availability in _SETTLED:
            self._outcome.set()
        if snapshot.availability is not self._availability:
            self._availability = snapshot.availability
            self._listener.model_changed(snapshot)

    def _snapshot(self) -> ModelSnapshot:
        slot = self._actor.slot
        availability = availability_of(
            slot.state,
            self.prep.slot.state,
            was_ready=self._facts is not None,
            is_stopping=self._is_draining or self._is_stopping,
        )
        fault = self._why(availability)
        return ModelSnapshot(
            name=self.name,
            created=self._created,
            availability=availability,
            workers=(self._worker_snapshot(),),
            facts=self._facts,
            reason=None if fault is None else without_folders(fault.reason),
            cause=None if fault is None else fault.kind,
            retry_after_s=self._retry_after_s(availability, fault),
            restarts=dict(self._program.restarts),
        )

    def _why(self, availability: Availability) -> Fault | None:
        """Why the model is not READY, as far as somebody is to blame."""
        if availability is Availability.READY:
            return None
        if self.prep.slot.state in (WorkerState.FAILED, WorkerState.STUCK):
            return self.prep.slot.fault
        if self._actor.slot.state is WorkerState.SUSPECT:
            return Fault(FaultKind.STALL, "its worker has made no progress for some time")
        return self._last_fault

    def _retry_after_s(self, availability: Availability, fault: Fault | None) -> float | None:
        if availability is Availability.READY:
            return None
        estimate_s = self._actor.slot.history.rebuild_estimate_s
        if availability is not Availability.FAILED:
            return estimate_s
        if fault is not None and fault.kind in _LASTING:
            return None
        return self._knobs.cooldown_s + (estimate_s or 0.0)

    def _worker_snapshot(self) -> WorkerSnapshot:
        slot, program = self._actor.slot, self._program
        return WorkerSnapshot(
            worker_id=slot.worker_id,
            state=slot.state,
            since_s=slot.since_s,
            cause=None if slot.fault is None else slot.fault.kind,
            reason=None if slot.fault is None else without_folders(slot.fault.reason),
            pid=None if slot.child is None else slot.child.pid,
            load_s=None if program.loaded is None else program.loaded.load_s,
            cache=None if program.probed is None else program.probed.cache,
            capabilities=None if program.loaded is None else program.loaded.capabilities,
        )

    def _build_facts(self) -> ModelFacts | None:
        program, prep = self._program, self.prep.ready_info
        if program.loaded is None or program.probed is None or prep is None:
            return self._facts
        return build_facts(
            self._config,
            self._manifest,
            prep,
            program.loaded.capabilities,
            program.probed.cache,
            context_limit=self._context_limit,
            probe_key=program.probe_key,
        )
