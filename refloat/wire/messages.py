"""The messages between the gateway and its two kinds of children, by receiver.

Nothing here knows of HTTP, and nothing here is executable: msgspec decodes each into a typed struct or
refuses the frame. Token ids cross the wire as packed int32 (see `pack_ids`), since a prompt can hold
a hundred thousand of them.
"""

from array import array
from collections.abc import Sequence
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from refloat.wire.faults import FaultKind
from refloat.wire.guide import Guide
from refloat.wire.problem import Problem

#: Raised whenever a message or its meaning changes; both ends refuse a stranger.
PROTOCOL_VERSION = 8
#: The largest token id that can be sent (`pack_ids`).
MAX_TOKEN_ID = 2**31 - 1
#: From a worker: ids of which one could not be sent back to the next one are a frame that is none.
TokenId = Annotated[int, Meta(ge=0, le=MAX_TOKEN_ID)]


def pack_ids(ids: Sequence[int]) -> bytes:
    """Token ids as little-endian int32, the form in which they cross the wire."""
    return array("i", ids).tobytes()


def unpack_ids(packed: bytes) -> list[int]:
    """The inverse of `pack_ids`. Raises `ValueError` for a length that is no multiple of four."""
    ids = array("i")
    ids.frombytes(packed)
    return ids.tolist()


class SamplingParams(msgspec.Struct, frozen=True, omit_defaults=True):
    """How one sequence is decoded. Complete: no default is left for an engine to choose."""

    max_tokens: int
    """Tokens the generation may have in all, counted from the end of the *original* prompt, so the
    number stays the same when a generation continues elsewhere."""
    min_tokens: int = 0
    """Stop tokens are impossible before this many tokens."""
    temperature: float = 1.0
    """0 is greedy; the other sampling fields then have no effect."""
    top_p: float = 1.0
    top_k: int = 0
    """0: no limit."""
    min_p: float = 0.0
    seed: int = 0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    repetition_penalty: float = 1.0
    stop_token_ids: tuple[int, ...] = ()
    """Every id that ends the generation: the model's EOS ids (unless ignored) and the caller's."""
    logprobs: bool = False
    guide: Guide | None = None
    """`None`: any text."""


class Capabilities(msgspec.Struct, frozen=True, omit_defaults=True):
    """What an engine can do; policy asks this record and never an engine's name."""

    token_resume: bool = True
    """Can go on from prompt + emitted ids."""
    batch: bool = True
    guided: bool = False
    hybrid: bool = False
    """Has recurrent state: resuming is a continuation, and a request never ends at one token."""
    capacity: int = 256
    """Sequences it can hold at a time; 1 for a blocking engine."""
    step_tokens: int = 0
    """What a step computes at most, as the engine was made; 0: as configured."""
    blocks: bool = True
    """Has a paged KV cache whose blocks can be counted."""
    logprobs: bool = True
    """Gives the chosen token's log-probability (never alternatives)."""


class EngineSpec(msgspec.Struct, frozen=True, omit_defaults=True):
    """Everything a worker needs to build its engine. Sent once, first."""

    engine: str
    """A name in `engines/registry.py`."""
    model_path: str
    device: str = "CPU"
    properties: dict[str, Any] = {}
    """OpenVINO properties, as given to the plugin."""
    num_kv_blocks: int | None = None
    cache_size_bytes: int | None = None
    """Used to compute `num_kv_blocks` where that is not given, once a block's size is known."""
    max_num_seqs: int = 64
    """For which the cache is made."""
    is_sized_by_cache: bool = False
    """As many may run as the cache has blocks for, whatever `max_num_seqs` says."""
    max_num_batched_tokens: int = 512
    inter_token_target_s: float = 0.0
    """What a step may take: the engine measures itself and computes less in one, if need be."""
    enable_prefix_caching: bool = True
    context_length: int = 0
    eos_token_ids: tuple[int, ...] = ()
    options: dict[str, Any] = {}
    """For one engine only (the scripted engine's script and speed)."""
    rung: int = 0
    """How far down the model's ladder these settings are; 0: as configured, full speed."""
    faults: tuple[dict[str, Any], ...] = ()
    """Fault plan entries with the `times` that are left (see `faults/plan.py`)."""


class CacheFacts(msgspec.Struct, frozen=True, omit_defaults=True):
    """The KV cache as the engine really built it."""

    block_size: Annotated[int, Meta(ge=1)]
    """Tokens in a block."""
    num_blocks: int
    bytes_total: int = 0


# --- for the worker -------------------------------------------------------------------------------


class Prime(msgspec.Struct, frozen=True, tag="prime"):
    """Before `Configure`, which may come at any moment after: import what this engine is made of and
    read the model's files, so that both are in memory. The answer is `Primed`, unless `Configure` came
    before its end."""

    engine: str
    model_path: str


class Configure(msgspec.Struct, frozen=True, tag="configure"):
    """Build this engine. The answer is `Loaded` or `LoadFailed`."""

    version: int
    worker_id: int
    spec: EngineSpec


class Probe(msgspec.Struct, frozen=True, tag="probe"):
    """Generate `count` greedy tokens from `prompt`, alone, and say what came. Before any `Add`."""

    prompt: bytes
    count: int


class Add(msgspec.Struct, frozen=True, tag="add"):
    """Run this generation from where it stands."""

    generation: int
    attempt: int
    """Which try of this generation: outputs of an older attempt are refused by the journal."""
    tokens: bytes
    """Prompt ids followed by the `offset` ids already emitted, packed."""
    offset: int
    params: SamplingParams


class Cancel(msgspec.Struct, frozen=True, tag="cancel"):
    """Stop this attempt; no more of its ids are wanted. Its end is still reported (`ended`), after
    the step that freed it, and only then do its blocks count as free. Unknown ones are ignored."""

    generation: int
    attempt: int


class FaultSpent(msgspec.Struct, frozen=True, tag="fault_spent"):
    """Another worker of the model has fired this entry of the fault plan: a chance less here, too."""

    index: int


class Shutdown(msgspec.Struct, frozen=True, tag="shutdown"):
    """Leave at once. Only sent when nothing runs."""


ToWorker = Prime | Configure | Probe | Add | Cancel | FaultSpent | Shutdown


# --- for the gateway, from a worker ---------------------------------------------------------------


class Hello(msgspec.Struct, frozen=True, tag="hello"):
    """The first message of every child."""

    version: int
    pid: int
    program: str
    """`worker` or `prep`."""
    versions: dict[str, str] = {}
    """Of the libraries that decide what comes out."""


class Primed(msgspec.Struct, frozen=True, tag="primed"):
    """The engine's libraries are imported and the model's files read; nothing touched the device."""

    read_bytes: int
    prime_s: float


class Loaded(msgspec.Struct, frozen=True, tag="loaded"):
    """The engine stands, but has not yet proved itself."""

    capabilities: Capabilities
    load_s: float


class LoadFailed(msgspec.Struct, frozen=True, tag="load_failed"):
    """The engine could not be built; the worker exits after this."""

    kind: FaultKind
    """`LOAD_FAILED`, `OUT_OF_MEMORY` or `BAD_CONFIGURATION`."""
    message: str


class Probed(msgspec.Struct, frozen=True, tag="probed"):
    """What the probe said, and the cache that it made the engine allocate."""

    ids: tuple[int, ...]
    cache: CacheFacts | None
    """`None` for an engine without a paged cache."""
    probe_s: float


#: `Output.ended` of an attempt that the worker stopped, or never began, for want of KV blocks: the
#: generation goes on, in another attempt, when there is room.
ENDED_PREEMPTED = "preempted"


class Output(msgspec.Struct, frozen=True, array_like=True):
    """What one sequence gained in one step."""

    generation: int
    attempt: int
    offset: int
    """Position of `ids[0]`, counted from the end of the original prompt."""
    ids: tuple[TokenId, ...]
    logprobs: tuple[float, ...] | None = None
    """One for each id, natural logarithm; `None` unless asked for."""
    ended: str | None = None
    """Set when the engine will send nothing more for this attempt and has freed its blocks, to the
    engine's own word for it (`stop`, `length`, `ignored`, `cancelled`) or `ENDED_PREEMPTED`. Every
    `Add` gets exactly one such output or one `Refused`. The journal judges a generation's end by its
    ids, not by this."""


class Step(msgspec.Struct, frozen=True, tag="step"):
    """All that one engine step brought: exactly one frame per step."""

    number: int
    outputs: tuple[Output, ...]
    used_blocks: int = -1
    """KV blocks in use after the step by the engine's figures; -1 where it has none."""


class Refused(msgspec.Struct, frozen=True, tag="refused"):
    """The engine would not take an `Add`. That generation ends; nothing else is touched."""

    generation: int
    attempt: int
    problem: Problem


class WorkerFault(msgspec.Struct, frozen=True, tag="worker_fault"):
    """The worker's last words: it touches nothing after this and waits for its SIGKILL."""

    kind: FaultKind
    message: str
    phase: str


class FaultFired(msgspec.Struct, frozen=True, tag="fault_fired"):
    """A fault plan's entry is about to happen. Sent first, so its `times` survives the worker."""

    index: int


FromWorker = (
    Hello | Primed | Loaded | LoadFailed | Probed | Step | Refused | WorkerFault | FaultFired
)
