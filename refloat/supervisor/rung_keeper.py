"""Moves one model along its ladder and tells of it: the next worker's settings, the log, the gauge."""

import time
from collections.abc import Callable

from prometheus_client import Gauge

from refloat.observe.log import get_logger
from refloat.supervisor.exits import Fault
from refloat.supervisor.fleet import Rebuild
from refloat.supervisor.ladder import Ladder
from refloat.supervisor.spec_source import SpecSource
from refloat.wire.faults import FaultKind
from refloat.wire.messages import EngineSpec

_log = get_logger(__name__)

_CANNOT_LOAD = frozenset({FaultKind.BAD_CONFIGURATION, FaultKind.LOAD_FAILED})


class RungKeeper:
    """One for a model, whatever number of slots it has. Used on the event loop only."""

    def __init__(
        self,
        model: str,
        ladder: Ladder,
        source: SpecSource,
        gauge: Gauge,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._ladder = ladder
        self._source = source
        self._gauge = gauge
        self._clock = clock
        self._log = _log.bind(model=model)
        gauge.set(ladder.rung)

    @property
    def rung(self) -> int:
        """Of the next worker; 0: full speed."""
        return self._ladder.rung

    def lost(self, rebuild: Rebuild, *, had_progress: bool, is_external: bool) -> None:
        """A serving worker is lost, and this is what its generations make of it."""
        now_s = self._clock()
        match rebuild:
            case Rebuild.SAFER:
                self._ladder.go_down(now_s)
            case Rebuild.CLEARED:
                self._ladder.take_back(now_s)
            case Rebuild.SAME:
                self._ladder.rebuilt(now_s, had_progress=had_progress, is_external=is_external)
        self._apply(f"the last worker was lost ({rebuild})")

    def load_failed(self, spec: EngineSpec, fault: Fault) -> bool:
        """A load with these settings failed. Whether that was for a rung's sake: then the rung is not
        used again."""
        if spec.rung == 0 or fault.kind not in _CANNOT_LOAD:
            return False
        if spec.rung == self._ladder.rung:
            self._ladder.reject(self._clock())
            self._apply(f"rung {spec.rung} cannot be loaded: {fault.reason}")
        return True

    def climb_to_top(self) -> bool:
        """An operator wants full speed. Whether it was less."""
        was_below = self.rung > 0
        self._ladder.climb_to_top()
        self._apply("an operator says so")
        return was_below

    def _apply(self, why: str) -> None:
        before, spec = self._source.current.rung, self._ladder.spec
        if spec.rung == before:
            return
        self._source.settle(spec)
        self._gauge.set(spec.rung)
        self._log.warning(
            "ladder_rung",
            rung=spec.rung,
            before=before,
            why=why,
            device=spec.device,
            properties=spec.properties,
            max_num_batched_tokens=spec.max_num_batched_tokens,
            max_num_seqs=spec.max_num_seqs,
        )
