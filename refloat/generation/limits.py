"""The figures that bound one model's generations. Values only; each is read where it is applied."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from refloat.config.key_rights import tenant_weights
from refloat.config.schema import ModelConfig, ServerConfig


@dataclass(frozen=True, slots=True)
class Limits:
    """How much may wait, for how long, and how often it is tried again."""

    max_queue: int = 512
    """Generations that may wait for a worker."""
    max_queued_tokens: int = 16_000_000
    """Prompt and answer tokens that the waiting ones ask for together."""
    max_queued_bytes: int = 256 * 1024 * 1024
    """Bytes that the waiting ones' journals hold together."""
    hold_timeout_s: float = 30.0
    """Seconds that work waits for a model that is loading or recovering."""
    request_timeout_s: float | None = None
    """Deadline of a request that names none."""
    max_generation_s: float | None = None
    """Seconds from its first token after which an answer ends as it is; `None`: never."""
    loop_guard_tokens: int = 0
    """So many tokens of one phrase over and over end an answer; 0: never."""
    max_resumes: int = 8
    """Times a generation is sent again without a new token in between."""
    look_ahead: int = 2
    """Generations a worker may have that have brought no token yet, beyond those whose prompts its
    next step can compute whole."""
    step_tokens: int = 512
    """Tokens one step computes (`max_num_batched_tokens`)."""
    is_fair: bool = True
    """Whether a generation is stopped for a while when its tenant has more than its share of the slots
    and another tenant waits."""
    tenant_weights: Mapping[str, float] = field(default_factory=dict[str, float])
    """Of those tenants whose share of the slots is not to be the same as everybody's, 1."""
    prefix_caching: bool = True
    """Whether the engine keeps finished prompts, so that hits are worth counting."""
    sweep_interval_s: float = 0.1
    """How late a deadline may be noticed."""
    max_convictions: int = 3
    """Convicted requests of one tenant within `conviction_window_s` that make its next ones wait."""
    conviction_window_s: float = 600.0
    retry_after_s: float = 2.0
    """Told to a caller whom a full queue turned away while its pace is not known yet."""


def limits_for(model: ModelConfig, server: ServerConfig) -> Limits:
    """One model's bounds, from its own settings and the server's."""
    return Limits(
        max_queue=model.max_queue,
        hold_timeout_s=server.hold_timeout_s,
        request_timeout_s=model.request_timeout_s,
        max_generation_s=model.max_generation_s,
        loop_guard_tokens=model.loop_guard_tokens,
        step_tokens=model.max_num_batched_tokens,
        is_fair=model.fair_preemption,
        tenant_weights=tenant_weights(server.keys),
        prefix_caching=model.enable_prefix_caching,
    )
