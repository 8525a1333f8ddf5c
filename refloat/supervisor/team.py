"""A model's worker slots, built and run: the one that serves and its spares, each a task of its own.

Who of them serves is decided in `spares.py`; what is published, in `supervisor.py`.
"""

import asyncio
from collections import Counter
from collections.abc import Callable

from refloat.supervisor.exits import Fault
from refloat.supervisor.inbox import Order
from refloat.supervisor.lifecycle import LIVE, WorkerState
from refloat.supervisor.spares import Lineup
from refloat.supervisor.worker_unit import Premises, Shared, WorkerUnit
from refloat.wire.faults import FaultKind

#: What evidence may cost the end of a supervisor.
_WRITE_INCIDENTS_S = 5.0
_DOWN = frozenset({WorkerState.FAILED, WorkerState.BACKOFF})


class WorkerTeam:
    """All worker slots of one model."""

    def __init__(
        self,
        premises: Premises,
        *,
        publish: Callable[[], None],
        on_change: Callable[[], None],
    ) -> None:
        """`on_change`: a slot's state, cause or reason is another. `publish`: another slot serves."""
        self._premises = premises
        self._on_change = on_change
        self._may_build_spares = asyncio.Event()
        spares = premises.config.spares
        shared = Shared(premises)
        self.lineup = Lineup(
            premises.listener,
            publish,
            is_primed=spares == "primed",
            wanted_rung=lambda: premises.source.current.rung,
        )
        count = 1 if spares == 0 else 2
        self._units = [
            WorkerUnit(number, premises, shared, self.lineup, self._changed)
            for number in range(count)
        ]
        premises.source.on_spent(self._tell_spent)
        premises.host.quarantine.on_release(self._released)

    @property
    def units(self) -> tuple[WorkerUnit, ...]:
        """Those that are there, the leading one first."""
        leading = self.leading
        rest = (unit for unit in self._units if unit.is_started and unit is not leading)
        return (leading, *rest)

    @property
    def leading(self) -> WorkerUnit:
        """The unit that serves; while none does, the one that is nearest to it."""
        seat = self.lineup.leading
        return next(unit for unit in self._units if unit.seat is seat)

    @property
    def is_down(self) -> bool:
        """Whether some slot waits for an operator or for time to pass."""
        return any(unit.state in _DOWN for unit in self._units)

    @property
    def rebuild_estimate_s(self) -> float | None:
        """Seconds from a start to READY; `None`: there was none yet."""
        estimates = [unit.slot.history.rebuild_estimate_s for unit in self.units]
        return next((estimate for estimate in estimates if estimate is not None), None)

    def restarts(self) -> dict[FaultKind, int]:
        """Losses of all slots, by cause."""
        count: Counter[FaultKind] = Counter()
        for unit in self._units:
            count.update(unit.program.restarts)
        return dict(count)

    async def run(self) -> None:
        """Keep them up until `stop`. Raises if supervision itself breaks."""
        name = self._premises.name
        try:
            async with asyncio.TaskGroup() as slots:
                for unit in self._units:
                    slots.create_task(self._run(unit), name=f"{name}-worker-slot-{unit.number}")
        finally:
            for unit in self._units:
                await unit.incidents.finish(_WRITE_INCIDENTS_S)

    async def stop(self, deadline_s: float) -> None:
        """End all of them: asked, then SIGTERM, and SIGKILL after `deadline_s`."""
        self.lineup.is_closing = True
        self._may_build_spares.set()
        started = [unit for unit in self._units if unit.is_started]
        await asyncio.gather(*(unit.actor.stop(deadline_s) for unit in started))

    def reset(self, *, accept_probe: bool) -> None:
        """The operator says: try again, now."""
        for unit in self._units:
            if accept_probe:
                unit.program.accept_probe()
            unit.actor.post(Order.RESET)

    def outcome(self, incident_id: str, generation: int, text: str) -> None:
        """What became of a generation, for whichever slot's incident that was."""
        for unit in self._units:
            unit.incidents.outcome(incident_id, generation, text)

    def condemn(self, fault: Fault, worker_id: int | None = None) -> None:
        """This worker is of no use any more; without an id, none of the model's is."""
        for unit in self._units:
            if worker_id in (None, unit.slot.worker_id):
                unit.condemn(fault)

    def set_vocab_size(self, vocab_size: int) -> None:
        """Prep knows the vocabulary."""
        for unit in self._units:
            unit.program.set_vocab_size(vocab_size)

    async def _run(self, unit: WorkerUnit) -> None:
        if unit.number > 0:
            await self._may_build_spares.wait()  # bounded by `stop`
            if self.lineup.is_closing:
                return
        unit.is_started = True
        await unit.actor.run()

    def _changed(self, unit: WorkerUnit) -> None:
        unit.note_stuck()
        self._on_change()
        if unit.state is WorkerState.READY:
            self._may_build_spares.set()

    def _tell_spent(self, worker_id: int, index: int) -> None:
        for unit in self._units:
            child = unit.slot.child
            if child is not None and child.worker_id != worker_id and unit.state in LIVE:
                unit.program.tell_spent(child, index)

    def _released(self) -> None:
        for unit in self._units:
            unit.released()
