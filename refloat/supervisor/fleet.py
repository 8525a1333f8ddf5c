"""The fleet as everybody may see it: immutable snapshots, written by supervisors alone.

Health, readiness, `/v1/config`, metrics and pages are all derived from here, so that none can say
something else than another. Also the two small contracts between supervision and generations:
`Replica` (what dispatch may do to a worker) and `ReplicaListener` (what it is told of one).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from refloat.models.manifest import SamplingDefaults
from refloat.supervisor.lifecycle import WorkerState
from refloat.wire.faults import FaultKind
from refloat.wire.messages import CacheFacts, Capabilities, Refused, Step, ToWorker


class WorkerRole(StrEnum):
    """What a worker slot is there for."""

    SERVING = "serving"
    """Its worker has the generations; or nobody's has, and it is the nearest to it."""
    SPARE = "spare"
    """It takes over when the other is lost."""


@dataclass(frozen=True, slots=True)
class WorkerSnapshot:
    """One worker slot of a model."""

    worker_id: int
    """Never reused: the next process in this slot has another."""
    state: WorkerState
    since_s: float
    """`time.monotonic()` of the last change of state."""
    cause: FaultKind | None = None
    reason: str | None = None
    """A sentence for people; set in EXITED, BACKOFF, FAILED and STUCK."""
    pid: int | None = None
    load_s: float | None = None
    cache: CacheFacts | None = None
    capabilities: Capabilities | None = None
    role: WorkerRole = WorkerRole.SERVING
    waits_for: str | None = None
    """Why it has not begun to load, for people."""
    device: str | None = None


class Availability(StrEnum):
    """What a request for a model meets; each has one answer in every dialect (design table 5)."""

    READY = "ready"
    LOADING = "loading"
    RECOVERING = "recovering"
    FAILED = "failed"
    DRAINING = "draining"
    UNLOADED = "unloaded"


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """What the gateway knows of a model once prep and a worker have stood up once.

    They stay true while the worker is gone: the next one is built from the same configuration.
    """

    context_length: int
    """Tokens of prompt and answer together, and what is advertised: never more than the cache holds."""
    vocab_size: int
    eos_token_ids: tuple[int, ...]
    bos_token_id: int | None
    sampling: SamplingDefaults
    fingerprint: str
    """`system_fingerprint`: names model, properties, device and versions together."""
    capabilities: Capabilities
    cache: CacheFacts | None
    max_num_seqs: int
    max_output_tokens: int | None
    """The operator's cap on an answer whose caller set none."""
    chat_unavailable: str | None = None
    template_text: str | None = None
    """What the chat template says."""
    tool_parser: str | None = None
    """The operator's word on how calls are written; `None`: as the template shows."""
    reasoning_parser: str | None = None


@dataclass(frozen=True, slots=True)
class ModelSnapshot:
    """One model, whole."""

    name: str
    created: int
    """Unix time at which this server took the model on."""
    availability: Availability
    workers: tuple[WorkerSnapshot, ...]
    """The one that serves first; while none does, the one that is nearest to it."""
    facts: ModelFacts | None
    reason: str | None = None
    """Why it is not READY, for people and error bodies."""
    cause: FaultKind | None = None
    retry_after_s: float | None = None
    """Estimate of the time until READY, from this machine's own loads; `None`: unknown."""
    restarts: Mapping[FaultKind, int] = field(default_factory=dict[FaultKind, int])
    rung: int = 0
    """How far down its ladder of safer settings it is, or its next worker will be; 0: full speed."""
    notice: str | None = None
    """What is served with less than was configured, for people, also while READY."""
    incident_id: str | None = None
    """Of the outage in which it is not READY; `None`: no worker was lost."""


class Fleet:
    """Holds the current snapshot of every model. One writer per model: its supervisor."""

    def __init__(self) -> None:
        self._models: dict[str, ModelSnapshot] = {}

    def publish(self, snapshot: ModelSnapshot) -> None:
        """Replace a model's snapshot."""
        self._models = {**self._models, snapshot.name: snapshot}

    def get(self, name: str) -> ModelSnapshot | None:
        """One model, or `None` if this server has none of that name."""
        return self._models.get(name)

    def models(self) -> tuple[ModelSnapshot, ...]:
        """All models, in configured order."""
        return tuple(self._models.values())


@dataclass(frozen=True, slots=True)
class ReplicaLoss:
    """How a replica was lost, as far as that matters to the generations it had."""

    cause: FaultKind
    reason: str
    batch: tuple[int, ...] = ()
    """Generations named by the progress page for the step under way; empty: none was."""
    is_external: bool = False
    """By a signal that nobody here sent and no kernel line explains, or by the operator: nobody's
    request is to be suspected."""
    incident_id: str | None = None


class Rebuild(StrEnum):
    """What the next worker should be like, by the word of those whose generations it will run."""

    SAME = "same"
    SAFER = "safer"
    """The next rung of the ladder: a suspect has failed alone, or many have failed only together.
    Not charged to the crash budget."""
    CLEARED = "cleared"
    """As it was before a suspect was given a safer one: the request that was to blame has ended. Not
    charged to the crash budget either."""


class Replica(Protocol):
    """A worker that is READY, as dispatch sees it. Sending never blocks; a dead one ignores it."""

    @property
    def worker_id(self) -> int: ...

    @property
    def cache(self) -> CacheFacts | None: ...

    @property
    def capabilities(self) -> Capabilities: ...

    @property
    def max_num_seqs(self) -> int: ...

    def send(self, message: ToWorker) -> None: ...


class ReplicaListener(Protocol):
    """What a supervisor tells dispatch, always on the event loop, always in this order for a worker:
    `ready`, any number of the others, then exactly one `lost`."""

    def replica_ready(self, replica: Replica) -> None: ...

    def replica_step(self, worker_id: int, step: Step) -> None: ...

    def replica_refused(self, worker_id: int, refused: Refused) -> None: ...

    def replica_suspect(self, worker_id: int, *, suspect: bool) -> None: ...

    def replica_lost(self, worker_id: int, loss: ReplicaLoss) -> Rebuild: ...

    def model_changed(self, snapshot: ModelSnapshot) -> None:
        """The model's availability changed (after the snapshot was published)."""
        ...
