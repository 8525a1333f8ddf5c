"""Writes down a worker slot's outages: opens an incident at the moment of detection, notes what is done
and how long it takes, closes it when the slot serves again or is given up.

A `SlotWitness`. What happens on the way back (a load that fails, a second death) belongs to the same
incident; a worker that is lost after it was READY begins another. All file work is the writer's.
"""

import asyncio
import time
from collections.abc import Callable
from functools import partial

from prometheus_client import Counter

from refloat.observe.device import DeviceFacts, find_device
from refloat.observe.incident_hints import Case, hints_for
from refloat.observe.incident_record import Incident, KernelNote
from refloat.observe.incidents import new_incident_id
from refloat.observe.log import get_logger
from refloat.supervisor.child import Child
from refloat.supervisor.evidence import EvidenceTaker, progress_of
from refloat.supervisor.exits import Fault
from refloat.supervisor.incident_sources import IncidentSources, Particulars
from refloat.supervisor.incident_writer import IncidentWriter
from refloat.supervisor.kernel_ear import KernelEar
from refloat.supervisor.lifecycle import Effect, WorkerState
from refloat.supervisor.outage import Outage, utc_now
from refloat.wire.faults import FaultKind

_S = WorkerState
#: What the time spent in a state on the way back is called.
_WAYS = {_S.BACKOFF: "backoff", _S.SPAWNING: "spawn", _S.LOADING: "load", _S.PROBING: "probe"}
_KERNEL_BEFORE_S = 30.0
_MAX_NOTES = 40
_HINT_CHARS = 8_000
_REMEMBERED = 16


class IncidentLog:
    """One for a slot, on the event loop; `finish` at its end."""

    def __init__(
        self,
        model: str,
        device: str,
        sources: IncidentSources,
        particulars: Callable[[], Particulars],
        counter: Counter,
    ) -> None:
        """`device` by OpenVINO's name. `counter` has the labels model and cause."""
        self.model = model
        self._sources = sources
        self._particulars = particulars
        self._counter = counter
        self._writer = IncidentWriter(sources)
        self._taker = EvidenceTaker(sources, self._writer)
        self._device = find_device(device, sources.sys_root)
        address = None if self._device.is_guess else self._device.address
        self.ear = KernelEar(sources.kernel, address)
        self._log = get_logger(__name__)
        self._outage: Outage | None = None
        self._recent: dict[str, Outage] = {}
        self._entered_s = self._spawned_s = time.monotonic()
        self._worker_id = 0
        self._late: asyncio.TimerHandle | None = None

    @property
    def open_id(self) -> str | None:
        """Of the incident under way."""
        outage = self._outage
        return outage.record.id if outage is not None and outage.is_open else None

    @property
    def outage_id(self) -> str | None:
        """Of the incident that the slot has not come out of, though it may be closed as failed."""
        return None if self._outage is None else self._outage.record.id

    def outcome(self, incident_id: str, generation: int, text: str) -> None:
        """What became of a generation that an incident touched. An old incident is left as it is."""
        outage = self._recent.get(incident_id)
        if outage is not None:
            outage.record.generations[str(generation)] = text
            self._writer.save(outage.record)

    async def finish(self, deadline_s: float) -> None:
        """The slot is over: write what is left to write."""
        self.ear.deafen()
        if self._late is not None:
            self._late.cancel()
        outage = self._outage
        if outage is not None and outage.is_open:
            self._close(outage, "stopped")
        await self._writer.finish(deadline_s)

    # --- slot_witness.SlotWitness --------------------------------------------------------------------

    def condemned(self, child: Child | None, fault: Fault, state: WorkerState) -> None:
        """Open an incident, and take the evidence that SIGKILL destroys."""
        now_s = time.monotonic()
        self.ear.listen()
        outage = self._outage
        if outage is None and fault.kind is FaultKind.OPERATOR:
            return
        if outage is None:
            outage = self._outage = self._open(child, fault, state, now_s)
        outage.lose(child, fault, state, now_s)
        if child is not None:
            self._taker.threads(outage, child, fault)
        self._writer.save(outage.record)
        self._writer.coredump(outage.record)

    def moved(self, before: WorkerState, state: WorkerState) -> None:
        """Note how long the last state took; a state in which nothing goes on closes the incident."""
        now_s = time.monotonic()
        begin_s, self._entered_s = self._entered_s, now_s
        outage = self._outage
        if outage is None:
            return
        way = _WAYS.get(before)
        if way is not None and begin_s >= outage.opened_s:
            outage.act(way, self._worker_id, begin_s, now_s)
        if state is _S.FAILED:
            self._close(outage, "failed")
        elif state is _S.STUCK:
            outage.act("reap", self._worker_id, outage.lost_s, now_s)
            self._taker.stuck_threads(outage)
            self._settle_later(outage)
            self._close(outage, "stuck")

    def performed(self, effect: Effect, child: Child | None) -> None:
        """Some effects are actions in an incident."""
        now_s = time.monotonic()
        if effect is Effect.SPAWN and child is not None:
            self._worker_id, self._spawned_s = child.worker_id, now_s
            self.ear.hear(child)
        outage = self._outage
        if outage is None:
            return
        if effect is Effect.ANNOUNCE_LOST:
            outage.act("withdraw", self._worker_id, outage.lost_s, now_s)
        elif effect is Effect.ANNOUNCE_READY:
            outage.act("re-admit", self._worker_id, self._entered_s, now_s)
            self._close(outage, "ready")
            self._outage = None

    def reaped(self, child: Child | None, fault: Fault) -> None:
        """Its last words, its exit status, and what killing it took."""
        self.ear.deafen()
        outage = self._outage
        if outage is None or not outage.is_open:
            return
        exit_status = None
        if child is not None:
            now_s, killed_s = time.monotonic(), child.process.killed_s
            if killed_s is not None:
                outage.act("kill", child.worker_id, outage.lost_s, killed_s)
            outage.act("reap", child.worker_id, killed_s or outage.lost_s, now_s)
            exit_status = child.process.exit_code()
            self._taker.last_words(outage, child, fault)
            if outage.is_first:
                outage.is_external = fault.is_external
        outage.settle(fault, exit_status)
        self._writer.save(outage.record)
        self._settle_later(outage)

    def explain(self, child: Child, fault: Fault) -> Fault:
        """The OOM killer's line, if there is one by now."""
        return self.ear.explain(child.pid, child.process.exit_code(), fault, self._spawned_s)

    # --- within ------------------------------------------------------------------------------------

    def _open(self, child: Child | None, fault: Fault, state: WorkerState, now_s: float) -> Outage:
        particulars = self._particulars()
        spec = particulars.spec
        record = Incident(
            id=new_incident_id(self.model),
            model=self.model,
            opened=utc_now(),
            worker_id=0 if child is None else child.worker_id,
            pid=None if child is None else child.pid,
            cause=fault.kind,
            reason=fault.reason,
            state=state,
            device=self._device_of(spec.device),
            engine=spec.engine,
            versions=dict(particulars.versions),
            properties=dict(spec.properties),
            rung=spec.rung,
        )
        outage = Outage(record, now_s)
        outage.note_progress(progress_of(child, record), particulars.shares)
        self._recent[record.id] = outage
        while len(self._recent) > _REMEMBERED:
            del self._recent[next(iter(self._recent))]
        self._log.warning(
            "incident_opened",
            model=self.model,
            incident_id=record.id,
            worker_id=record.worker_id,
            cause=fault.kind,
            reason=fault.reason,
        )
        return outage

    def _device_of(self, name: str) -> DeviceFacts:
        """A rung of the ladder may be another device."""
        known = self._device
        return known if name == known.name else find_device(name, self._sources.sys_root)

    def _close(self, outage: Outage, outcome: str) -> None:
        record = outage.record
        outage.close(outcome, time.monotonic())
        self._note_kernel(outage)
        self._writer.save(record)
        self._writer.coredump(record)
        self._writer.prune(record)
        if self._late is not None:
            self._late.cancel()
        self._late = asyncio.get_running_loop().call_later(
            self._sources.late_coredump_s, self._writer.coredump, record
        )
        self._log.info(
            "incident_closed",
            model=self.model,
            incident_id=record.id,
            outcome=outcome,
            duration_s=record.duration_s,
        )

    def _settle_later(self, outage: Outage) -> None:
        """Give the kernel a moment to have its say, then judge the cause."""
        self._writer.do(outage.record, "kernel log", partial(self._settle, outage))

    async def _settle(self, outage: Outage) -> None:
        await asyncio.sleep(self._sources.late_kernel_s)
        record = outage.record
        if record.pid is not None and outage.is_first:
            known = Fault(record.cause, record.reason)
            fault = self.ear.explain(record.pid, record.exit_status, known, outage.opened_s - 1.0)
            if fault != known:
                outage.settle(fault, record.exit_status)
        self._note_kernel(outage)
        if not outage.is_counted:
            outage.is_counted = True
            self._counter.labels(self.model, record.cause).inc()
        self._writer.save(record)

    def _note_kernel(self, outage: Outage) -> None:
        """The kernel's lines around it so far, and the hints that follow from all that is known."""
        record = outage.record
        self.ear.listen()
        events = self.ear.since(outage.opened_s - _KERNEL_BEFORE_S)
        pids = {loss.pid for loss in record.losses}
        record.kernel = [
            KernelNote(e.kind, e.line, any(self.ear.names(e, pid) for pid in pids))
            for e in events[-_MAX_NOTES:]
        ]
        if events:
            text = "".join(f"{event.line}\n" for event in events)
            self._writer.file(record, "kernel.log", text)
        if self.ear.trouble is not None:
            record.miss("kernel log", self.ear.trouble)
        unexplained = record.cause is FaultKind.DEATH
        case = Case(
            cause=FaultKind.UNKILLABLE if record.outcome == "stuck" else record.cause,
            state=record.state,
            words=f"{record.reason}\n{outage.stderr[-_HINT_CHARS:]}",
            device=record.device.name,
            is_external=outage.is_external and unexplained,
            kernel_is_readable=self.ear.trouble is None,
            kernel=tuple(events),
        )
        record.hints = hints_for(case)
