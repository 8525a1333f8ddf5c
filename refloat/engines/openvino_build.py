"""Building a continuous-batching pipeline: cache sizes, scheduler settings. Running it is elsewhere."""

from pathlib import Path
from typing import Any, NamedTuple

import openvino as ov
import openvino_genai as genai

from refloat.engines.base import LoadError
from refloat.engines.engine_text import load_error
from refloat.engines.model_shape import (
    ModelShape,
    block_bytes,
    block_size_of,
    read_shape,
    shape_from_variables,
)
from refloat.engines.openvino_chunk import Bounds, measured_step
from refloat.kv.blocks import blocks_for
from refloat.observe.host_memory import read_host_memory
from refloat.wire.messages import EngineSpec

#: Without a size from the operator: room for two longest conversations, but at least so much, and
#: never more than a quarter of what the host has left (a GPU cannot be asked before the load).
_LEAST_DEFAULT_BYTES = 1 << 30
_MOST_DEFAULT_BYTES_ON_GPU = 4 << 30
_DEFAULT_CONVERSATIONS = 2
_HOST_SHARE = 4
#: Used where neither the folder nor the network says how wide the cache is: no model is far wider.
_FALLBACK_BYTES_PER_TOKEN = 256 * 1024
#: The engine keeps a checkpoint of the recurrent state at least every so many KV blocks.
_CHECKPOINT_BLOCKS = 8
#: Where nobody says how many are to run at a time: then blocks alone decide.
_MOST_SEQS = 256


class CachePlan(NamedTuple):
    """How large a cache to ask for."""

    num_blocks: int
    state_blocks: int
    """Blocks of recurrent state; 0 for models without one."""
    seats: int
    """Sequences that may be held at a time."""


class Built(NamedTuple):
    """A pipeline and what is known of it before its first step."""

    pipeline: genai.ContinuousBatchingPipeline
    shape: ModelShape
    plan: CachePlan
    step_tokens: int
    """Tokens that a step computes at most."""


def build_pipeline(spec: EngineSpec) -> Built:
    """Load the model. Raises `LoadError`."""
    folder = Path(spec.model_path)
    try:
        shape = read_shape(folder)
        if shape.attention_layers is None:
            shape = _shape_from_network(folder, shape)
        plan = plan_cache(spec, shape)
        step_tokens = spec.max_num_batched_tokens
        pipeline = _pipeline(spec, plan, step_tokens)
        if spec.inter_token_target_s:
            blocks = plan.num_blocks
            capacity = blocks * block_size_of(spec.device)
            bounds = Bounds(step_tokens, plan.seats, blocks, capacity, spec.context_length)
            fitting = measured_step(pipeline, spec.inter_token_target_s, bounds)
            if fitting < step_tokens:  # the size is fixed when a pipeline is made: it is made again
                step_tokens = fitting
                del pipeline
                pipeline = _pipeline(spec, plan, step_tokens)
    except LoadError:
        raise
    except Exception as error:
        raise load_error(error) from error
    return Built(pipeline, shape, plan, step_tokens)


def _pipeline(
    spec: EngineSpec, plan: CachePlan, step_tokens: int
) -> genai.ContinuousBatchingPipeline:
    config = _scheduler_config(spec, plan, step_tokens)
    return genai.ContinuousBatchingPipeline(
        spec.model_path, config, spec.device, dict(spec.properties)
    )


def plan_cache(spec: EngineSpec, shape: ModelShape) -> CachePlan:
    """Blocks and seats for a spec. Raises `LoadError` if not even one block fits.

    A recurrent model also needs a state for each sequence and for each checkpoint of the prefix
    cache, and stops sequences silently when they run out. So they are counted too, and where the
    states of all seats would take more than half of the cache, seats are taken away.
    """
    seats = spec.max_num_seqs
    each = _block_bytes(spec, shape)
    budget = spec.cache_size_bytes or _default_budget(spec, each)
    if shape.state_bytes and spec.num_kv_blocks is None:
        seats = max(1, min(seats, budget // 2 // shape.state_bytes))
    blocks = spec.num_kv_blocks
    if blocks is None:
        blocks = (budget - seats * shape.state_bytes) // each
        if spec.context_length:  # more than all seats can fill is of no use
            blocks = min(
                blocks, seats * blocks_for(spec.context_length, block_size_of(spec.device))
            )
    if blocks < 1:
        raise LoadError(
            f"a cache of {budget} bytes does not hold one KV block of this model", permanent=True
        )
    states = 0
    if shape.hybrid:
        checkpoints = -(-blocks // _CHECKPOINT_BLOCKS) if spec.enable_prefix_caching else 0
        states = seats + checkpoints
    return CachePlan(blocks, states, seats)


def _block_bytes(spec: EngineSpec, shape: ModelShape) -> int:
    """Bytes that a KV block costs, its share of the state checkpoints included."""
    precision: Any = spec.properties.get("KV_CACHE_PRECISION")
    each = block_bytes(shape, spec.device, None if precision is None else str(precision))
    if each is None:
        each = _FALLBACK_BYTES_PER_TOKEN * block_size_of(spec.device)
    if spec.enable_prefix_caching:
        each += shape.state_bytes // _CHECKPOINT_BLOCKS
    return each


def _default_budget(spec: EngineSpec, each: int) -> int:
    conversation = blocks_for(spec.context_length, block_size_of(spec.device)) * each
    wanted = max(_LEAST_DEFAULT_BYTES, _DEFAULT_CONVERSATIONS * conversation)
    if "GPU" in spec.device.upper():
        return min(wanted, _MOST_DEFAULT_BYTES_ON_GPU)
    return min(wanted, read_host_memory().available // _HOST_SHARE)


def _scheduler_config(spec: EngineSpec, plan: CachePlan, step_tokens: int) -> genai.SchedulerConfig:
    config = genai.SchedulerConfig()
    config.cache_size = 0
    config.num_kv_blocks = plan.num_blocks
    if plan.state_blocks:
        config.num_linear_attention_blocks = plan.state_blocks
    config.max_num_batched_tokens = step_tokens
    config.max_num_seqs = _MOST_SEQS if spec.is_sized_by_cache else spec.max_num_seqs
    config.enable_prefix_caching = spec.enable_prefix_caching
    # without it a prompt longer than a batch makes every step raise until it is cancelled
    config.dynamic_split_fuse = True
    return config


def _shape_from_network(folder: Path, known: ModelShape) -> ModelShape:
    network = folder / "openvino_model.xml"
    if not network.is_file():
        return known  # the engine will say what is missing
    variables: list[tuple[str, list[int | None]]] = []
    model: ov.Model = ov.Core().read_model(str(network))  # pyright: ignore[reportUnknownMemberType]
    for variable in model.get_variables():
        dims = [
            None if dim.is_dynamic else int(dim.get_length()) for dim in variable.info.data_shape
        ]
        variables.append((str(variable.info.variable_id), dims))
    return shape_from_variables(variables)._replace(vocab_size=known.vocab_size)
