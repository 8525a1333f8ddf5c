"""One model's supervisor: its worker slots, its prep process, and the snapshot of them all.

Each slot runs as a task of its own; whatever changes in any is published from here, in one piece,
before anybody is told of it.
"""

import asyncio

from refloat.config.home import probes_dir
from refloat.config.schema import ModelConfig
from refloat.models.manifest import Manifest
from refloat.observe.metrics import Metrics
from refloat.supervisor.availability import availability_of
from refloat.supervisor.exits import Fault
from refloat.supervisor.facts import build_facts
from refloat.supervisor.fleet import (
    Availability,
    Fleet,
    ModelFacts,
    ModelSnapshot,
    ReplicaListener,
    WorkerRole,
    WorkerSnapshot,
)
from refloat.supervisor.host_share import HostShare
from refloat.supervisor.incident_log import IncidentLog
from refloat.supervisor.incident_sources import IncidentSources, default_sources
from refloat.supervisor.knobs import Knobs
from refloat.supervisor.ladder import Ladder, ladder_specs
from refloat.supervisor.lifecycle import WorkerState
from refloat.supervisor.prep_process import PrepProcess
from refloat.supervisor.probe import ProbeStore
from refloat.supervisor.rung_keeper import RungKeeper
from refloat.supervisor.spec import build_prep_configure, context_limit, log_spec
from refloat.supervisor.spec_source import SpecSource
from refloat.supervisor.team import WorkerTeam
from refloat.supervisor.worker_unit import Premises, WorkerUnit
from refloat.wire.faults import FaultKind
from refloat.wire.paths import without_folders

_SETTLED = frozenset({Availability.READY, Availability.FAILED})
#: Nothing passes by itself that has one of these causes.
_LASTING = frozenset({FaultKind.BAD_CONFIGURATION, FaultKind.WRONG_OUTPUT, FaultKind.UNKILLABLE})


_RESET = Fault(FaultKind.OPERATOR, "an operator wants it at full speed again")


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
        host: HostShare | None = None,
    ) -> None:
        """`incidents` and `host` are one each for all models of a server."""
        knobs = (Knobs() if knobs is None else knobs).for_floor(config.stall_floor_s)
        self.name = name
        self._created = created
        self._config = config
        self._manifest = manifest
        self._context_limit = _known_limit(name, config, manifest)
        self._listener = listener
        self._fleet = fleet
        self._metrics = metrics
        self._knobs = knobs
        specs = ladder_specs(config, manifest, model_path)
        self._source = SpecSource(specs[0])
        ladder = Ladder(specs, quiet_s=config.ladder_quiet_s)
        self._rungs = RungKeeper(name, ladder, self._source, metrics.ladder_rung.labels(name))
        self._host = HostShare() if host is None else host
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
        premises = Premises(
            name=name,
            config=config,
            manifest=manifest,
            source=self._source,
            listener=listener,
            metrics=metrics,
            knobs=knobs,
            probes=ProbeStore(probes_dir()) if probes is None else probes,
            incidents=default_sources() if incidents is None else incidents,
            host=self._host,
            rungs=self._rungs,
        )
        self._workers = WorkerTeam(premises, publish=self._publish, on_change=self._worker_changed)

    async def run(self) -> None:
        """Keep the model up until `stop`. Raises if supervision itself breaks; the gateway must
        not survive that."""
        log_spec(self.name, self._config, self._source.current)
        self._is_running = True
        self._publish()
        try:
            async with asyncio.TaskGroup() as slots:
                slots.create_task(self._workers.run(), name=f"{self.name}-workers")
                slots.create_task(self.prep.run(), name=f"{self.name}-prep-slot")
        finally:
            self._is_running = False
            self._outcome.set()

    @property
    def incidents(self) -> IncidentLog:
        """Of the slot that serves."""
        return self._workers.leading.incidents

    def outcome(self, incident_id: str, generation: int, text: str) -> None:
        """What became of a generation that lost its worker, for the incident's record."""
        self._workers.outcome(incident_id, generation, text)

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
            await asyncio.gather(self._workers.stop(deadline_s), self.prep.stop(deadline_s))

    async def wait_first_outcome(self) -> ModelSnapshot:
        """The snapshot once the model was READY or FAILED for the first time, or `run` is over."""
        await self._outcome.wait()
        return self._snapshot()

    def reset(self, *, accept_probe: bool = False) -> bool:
        """The operator says: try again, now, and at full speed. Whether anything is started for that.
        `accept_probe`: what the next probe says is right from now on."""
        down = (WorkerState.FAILED, WorkerState.BACKOFF)
        was_down = self._workers.is_down or self.prep.slot.state in down
        was_slow = self._rungs.climb_to_top()
        self.prep.reset()
        self._workers.reset(accept_probe=accept_probe)
        if was_slow:
            self._workers.condemn(_RESET)
        return was_down or was_slow

    def replace_for_memory(self, worker_id: int, reason: str) -> None:
        """Another worker goes on with what this one has; nobody's request is to blame."""
        self._workers.condemn(Fault(FaultKind.MEMORY_LIMIT, reason), worker_id)

    # --- within ------------------------------------------------------------------------------------

    def _prep_changed(self) -> None:
        info = self.prep.ready_info
        if info is not None:
            self._workers.set_vocab_size(info.vocab_size)
        self._publish()
        self._end_useless_workers()

    def _worker_changed(self) -> None:
        self._publish()
        self._end_useless_workers()

    def _end_useless_workers(self) -> None:
        """A model that can never tokenize needs no worker."""
        fault = self.prep.slot.fault
        is_hopeless = fault is not None and fault.kind is FaultKind.BAD_CONFIGURATION
        if self.prep.slot.state is not WorkerState.FAILED or not is_hopeless or fault is None:
            return
        if not self._is_stopping:
            self._workers.condemn(fault)

    def _publish(self) -> None:
        units, state = self._workers.units, self._workers.lineup.state
        if state is WorkerState.READY:
            self._facts = self._build_facts(units[0])
            self._last_fault = None
        elif units[0].slot.fault is not None:
            self._last_fault = units[0].slot.fault
        for each in WorkerState:
            gauge = self._metrics.worker_state.labels(self.name, each)
            gauge.set(sum(unit.state is each for unit in units))
        snapshot = self._snapshot()
        self._fleet.publish(snapshot)
        if snapshot.availability in _SETTLED:
            self._outcome.set()
        if snapshot.availability is not self._availability:
            self._availability = snapshot.availability
            self._listener.model_changed(snapshot)

    def _snapshot(self) -> ModelSnapshot:
        units = self._workers.units
        availability = availability_of(
            self._workers.lineup.state,
            self.prep.slot.state,
            was_ready=self._facts is not None,
            is_stopping=self._is_draining or self._is_stopping,
        )
        fault = self._why(availability)
        is_ready = availability is Availability.READY
        waits_for = None if availability in _SETTLED else units[0].loading.waits_for
        return ModelSnapshot(
            name=self.name,
            created=self._created,
            availability=availability,
            workers=tuple(self._worker_snapshot(unit) for unit in units),
            facts=self._facts,
            reason=waits_for or (None if fault is None else without_folders(fault.reason)),
            cause=None if fault is None else fault.kind,
            retry_after_s=self._retry_after_s(availability, fault),
            restarts=self._workers.restarts(),
            rung=self._rungs.rung,
            notice=units[0].loading.notice,
            incident_id=None if is_ready else units[0].incidents.outage_id,
        )

    def _why(self, availability: Availability) -> Fault | None:
        """Why the model is not READY, as far as somebody is to blame."""
        if availability is Availability.READY:
            return None
        if self.prep.slot.state in (WorkerState.FAILED, WorkerState.STUCK):
            return self.prep.slot.fault
        state = self._workers.lineup.state
        if state is WorkerState.SUSPECT:
            return Fault(FaultKind.STALL, "its worker has made no progress for some time")
        if state is WorkerState.STUCK:
            held = self._host.quarantine.reason(self._source.current.device)
            return self._last_fault if held is None else Fault(FaultKind.UNKILLABLE, held)
        return self._last_fault

    def _retry_after_s(self, availability: Availability, fault: Fault | None) -> float | None:
        if availability is Availability.READY:
            return None
        estimate_s = self._workers.rebuild_estimate_s
        if availability is not Availability.FAILED:
            return estimate_s
        if fault is not None and fault.kind in _LASTING:
            return None
        return self._knobs.cooldown_s + (estimate_s or 0.0)

    def _worker_snapshot(self, unit: WorkerUnit) -> WorkerSnapshot:
        slot, program, spec = unit.slot, unit.program, unit.loading.spec
        serves = self._workers.lineup.leading is unit.seat
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
            role=WorkerRole.SERVING if serves else WorkerRole.SPARE,
            waits_for=unit.loading.waits_for,
            device=spec.device,
        )

    def _build_facts(self, unit: WorkerUnit) -> ModelFacts | None:
        program, prep = unit.program, self.prep.ready_info
        if program.loaded is None or program.probed is None or prep is None:
            return self._facts
        return build_facts(
            self._config,
            self._manifest,
            prep,
            program.loaded.capabilities,
            program.probed.cache,
            spec=unit.loading.spec,
            context_limit=self._context_limit,
            probe_key=program.probe_key,
        )


def _known_limit(name: str, config: ModelConfig, manifest: Manifest) -> int:
    limit = context_limit(config, manifest)
    if limit is None:
        raise UnknownContextLengthError(
            f"model {name!r}: its files do not tell the context length; set context_length"
        )
    return limit
