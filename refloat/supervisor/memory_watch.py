"""Looks at the memory of gateway, workers and host once a second, and has done what `memory_policy.py`
says. Every path lies below a root that tests replace."""

import asyncio
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn, Protocol

from prometheus_client import Gauge

from refloat.config.schema import ModelConfig, ServerConfig
from refloat.observe.host_memory import read_host_memory, resident_bytes
from refloat.observe.log import get_logger
from refloat.supervisor.fleet import Fleet, WorkerSnapshot
from refloat.supervisor.lifecycle import WorkerState
from refloat.supervisor.memory_policy import GatewayMemory, WorkerMemory, judge

_log = get_logger(__name__)

_LOOK_S = 1.0
_SERVING = (WorkerState.READY, WorkerState.SUSPECT)


@dataclass(frozen=True, slots=True)
class MemoryLimits:
    """Bytes, from the settings; `None`: no limit of its own."""

    reserve: int
    gateway: int | None = None
    workers: Mapping[str, int | None] | None = None
    """By model."""


class Replaceable(Protocol):
    """A model's supervisor."""

    def replace_for_memory(self, worker_id: int, reason: str) -> None: ...


class MemoryWatch:
    """One for a gateway."""

    def __init__(
        self,
        fleet: Fleet,
        limits: MemoryLimits,
        *,
        refuse: Callable[[str | None], None],
        replace: Callable[[str, int, str], None],
        root: Path = Path("/"),
        clock: Callable[[], float] = time.monotonic,
        gauge: Gauge | None = None,
    ) -> None:
        """`refuse` is told why no new bodies are to be taken, or `None`; `replace` which worker of
        which model is to be replaced, and why; `gauge` shows what each model's workers hold."""
        self._fleet = fleet
        self._limits = limits
        self._refuse = refuse
        self._replace = replace
        self._root = root
        self._clock = clock
        self._gauge = gauge
        self._when_ready: dict[int, int] = {}
        self._replaced_s: dict[str, float] = {}
        self._refusal: str | None = None

    async def run(self) -> NoReturn:
        """For ever. Essential: if this task ends, the process must."""
        while True:
            self.look()
            await asyncio.sleep(_LOOK_S)

    def look(self) -> None:
        """Once."""
        workers = self._workers()
        gateway = GatewayMemory(
            resident_bytes(os.getpid(), self._root),
            self._limits.gateway,
            is_refusing=self._refusal is not None,
        )
        host = read_host_memory(self._root)
        judgement = judge(gateway, workers, host, self._limits.reserve)
        self._take_refusal(judgement.refusal, gateway.now, host.available)
        for model, worker_id, reason in judgement.replacements:
            _log.warning("worker_replaced_for_memory", model=model, worker=worker_id, reason=reason)
            self._replaced_s[model] = self._clock()
            self._replace(model, worker_id, reason)

    def _workers(self) -> list[WorkerMemory]:
        now_s, found = self._clock(), list[WorkerMemory]()
        limits = self._limits.workers or {}
        for snapshot in self._fleet.models():
            for worker in snapshot.workers:
                if worker.state not in _SERVING or worker.pid is None:
                    continue
                held = resident_bytes(worker.pid, self._root)
                last_s = self._replaced_s.get(snapshot.name)
                found.append(
                    WorkerMemory(
                        snapshot.name,
                        worker.worker_id,
                        held,
                        self._when_ready.setdefault(worker.worker_id, held),
                        _cache_bytes(worker),
                        limits.get(snapshot.name),
                        None if last_s is None else now_s - last_s,
                    )
                )
        self._show(found)
        known = {worker.worker_id for worker in found}
        self._when_ready = {k: v for k, v in self._when_ready.items() if k in known}
        return found

    def _show(self, workers: list[WorkerMemory]) -> None:
        if self._gauge is not None:
            for model in self._limits.workers or ():
                held = sum(worker.now for worker in workers if worker.model == model)
                self._gauge.labels(model).set(held)

    def _take_refusal(self, refusal: str | None, gateway_bytes: int, available_bytes: int) -> None:
        if refusal == self._refusal:
            return
        say = _log.info if refusal is None else _log.warning
        say(
            "new_bodies_taken" if refusal is None else "new_bodies_refused",
            why=refusal or self._refusal,
            gateway_bytes=gateway_bytes,
            available_bytes=available_bytes,
        )
        self._refusal = refusal
        self._refuse(refusal)


def _cache_bytes(worker: WorkerSnapshot) -> int:
    return 0 if worker.cache is None else worker.cache.bytes_total


def memory_watch_for(
    server: ServerConfig,
    models: Mapping[str, ModelConfig],
    supervisors: Mapping[str, Replaceable],
    fleet: Fleet,
    refuse: Callable[[str | None], None],
    gauge: Gauge,
) -> MemoryWatch:
    """As the settings say."""
    limits = MemoryLimits(
        server.memory_reserve_bytes,
        server.gateway_memory_bytes,
        {name: model.worker_memory_bytes for name, model in models.items()},
    )

    def replace(model: str, worker_id: int, reason: str) -> None:
        supervisors[model].replace_for_memory(worker_id, reason)

    return MemoryWatch(fleet, limits, refuse=refuse, replace=replace, gauge=gauge)
