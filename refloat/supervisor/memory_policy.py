"""What is to be done about memory: which worker is replaced, whether new bodies are refused. Pure.

A worker is replaced for what it has grown by since it was ready, never for what it needs at all: a
new one would need the same.
"""

from collections.abc import Sequence
from typing import NamedTuple

from refloat.observe.host_memory import HostMemory

#: Growth beyond the KV cache (whose pages are taken when they are first used) that a new worker of
#: the model would be worth.
LEAST_GROWTH_BYTES = 256 << 20
#: A model gets another worker for its memory's sake once in so long.
LEAST_INTERVAL_S = 60.0
#: What has to be there again, beyond the reserve, before bodies are taken again.
_RELIEF = 1.25

_MIB = 1 << 20


class WorkerMemory(NamedTuple):
    """One worker that is ready. Bytes."""

    model: str
    worker_id: int
    now: int
    when_ready: int
    cache: int
    """Its KV cache, as far as it is in host memory."""
    limit: int | None
    """Set by the operator."""
    since_last_s: float | None
    """Seconds since a worker of this model was replaced for its memory; `None`: never."""


class GatewayMemory(NamedTuple):
    """The gateway's own. Bytes."""

    now: int
    limit: int | None
    is_refusing: bool
    """New bodies are refused already."""


class Replacement(NamedTuple):
    """A worker to be replaced, and why, for people."""

    model: str
    worker_id: int
    reason: str


class Judgement(NamedTuple):
    """What follows from one look."""

    refusal: str | None
    """Why no new body is taken, for people; `None`: they are."""
    replacements: tuple[Replacement, ...]


def judge(
    gateway: GatewayMemory, workers: Sequence[WorkerMemory], host: HostMemory, reserve: int
) -> Judgement:
    """`reserve`: bytes of the host, or the control group, that are to stay free."""
    replacements = [r for worker in workers if (r := _beyond_limit(worker)) is not None]
    is_short = host.available < reserve
    if is_short and not replacements:
        grown = max(filter(_may_be_replaced, workers), key=_growth, default=None)
        if grown is not None and _growth(grown) >= LEAST_GROWTH_BYTES:
            replacements.append(
                Replacement(
                    grown.model,
                    grown.worker_id,
                    f"{host.available // _MIB} MiB of memory are left, and this worker has grown by "
                    f"{_growth(grown) // _MIB} MiB since it was ready",
                )
            )
    return Judgement(_refusal(gateway, host, reserve), tuple(replacements))


def _growth(worker: WorkerMemory) -> int:
    return worker.now - worker.when_ready - worker.cache


def _may_be_replaced(worker: WorkerMemory) -> bool:
    return worker.since_last_s is None or worker.since_last_s >= LEAST_INTERVAL_S


def _beyond_limit(worker: WorkerMemory) -> Replacement | None:
    limit = worker.limit
    if limit is None or worker.now <= limit or worker.when_ready > limit:
        return None
    if not _may_be_replaced(worker):
        return None
    reason = f"it holds {worker.now // _MIB} MiB of memory, more than its {limit // _MIB} MiB"
    return Replacement(worker.model, worker.worker_id, reason)


def _refusal(gateway: GatewayMemory, host: HostMemory, reserve: int) -> str | None:
    relief = _RELIEF if gateway.is_refusing else 1.0
    if gateway.limit is not None and gateway.now * relief > gateway.limit:
        return "the gateway holds as much memory as it may"
    if host.available < reserve * relief:
        return "the machine is short of memory"
    return None
