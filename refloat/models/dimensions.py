"""What `config.json` says about a model's shape: context, layers, heads. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from refloat.wire.messages import MAX_TOKEN_ID

#: Names under which model families state their context, most common first.
_CONTEXT_KEYS = (
    "max_position_embeddings",
    "n_positions",
    "max_seq_len",
    "max_sequence_length",
    "seq_length",
    "n_ctx",
)
_ATTENTION_LAYERS = frozenset(
    {"full_attention", "sliding_attention", "chunked_attention", "attention"}
)
#: Keys that only models with recurrent layers have, beside `layer_types`.
_RECURRENT_KEYS = (
    "linear_num_key_heads",
    "linear_conv_kernel_dim",
    "mamba_d_state",
    "ssm_cfg",
    "hybrid_override_pattern",
    "attn_layer_period",
    "conv_L_cache",
)
_F16_BYTES = 2


@dataclass(frozen=True, slots=True)
class Dimensions:
    """A model's shape, as far as it is stated."""

    context_length: int | None = None
    architecture: str | None = None
    hybrid: bool = False
    kv_bytes_per_token: int | None = None
    eos_token_ids: tuple[int, ...] = ()
    bos_token_id: int | None = None


def read_dimensions(config: Mapping[str, Any]) -> Dimensions:
    """Read a decoded `config.json`, also one that nests the language model in `text_config`.

    Rope scaling is not computed: `max_position_embeddings` is what the model was released for, and
    what exporters bake into the graph.
    """
    text = _text_config(config)
    bos = token_ids(config.get("bos_token_id")) or token_ids(text.get("bos_token_id"))
    layer_types = text.get("layer_types")
    types: list[Any] = cast("list[Any]", layer_types) if isinstance(layer_types, list) else []
    recurrent = [kind for kind in types if kind not in _ATTENTION_LAYERS]
    return Dimensions(
        context_length=_first_whole(_CONTEXT_KEYS, text, config),
        architecture=_architecture(config),
        hybrid=bool(recurrent) or any(text.get(key) is not None for key in _RECURRENT_KEYS),
        kv_bytes_per_token=_kv_bytes(text, without_kv=len(recurrent)),
        eos_token_ids=token_ids(config.get("eos_token_id")) or token_ids(text.get("eos_token_id")),
        bos_token_id=bos[0] if bos else None,
    )


#: What `gguf.json` (a `GgufFacts`) calls what `config.json` calls otherwise.
_GGUF_NAMES = {
    "context_length": "max_position_embeddings",
    "embedding_length": "hidden_size",
    "block_count": "num_hidden_layers",
    "head_count": "num_attention_heads",
    "head_count_kv": "num_key_value_heads",
    "key_length": "head_dim",
    "eos_token_ids": "eos_token_id",
    "bos_token_id": "bos_token_id",
    "architecture": "model_type",
}


def read_gguf_dimensions(gguf: Mapping[str, Any]) -> Dimensions:
    """Read the `gguf.json` that a conversion writes."""
    return read_dimensions({name: gguf.get(key) for key, name in _GGUF_NAMES.items()})


def token_id(value: object) -> int | None:
    """A token id, or `None` for anything else (`null`, `-1`, text)."""
    if not isinstance(value, int) or isinstance(value, bool):
        return None
    return value if 0 <= value <= MAX_TOKEN_ID else None


def token_ids(value: object) -> tuple[int, ...]:
    """Token ids from a number or a list of numbers, each once."""
    values: list[Any] = cast("list[Any]", value) if isinstance(value, list) else [value]
    found = [token_id(entry) for entry in values]
    return tuple(dict.fromkeys(entry for entry in found if entry is not None))


def _text_config(config: Mapping[str, Any]) -> Mapping[str, Any]:
    nested = config.get("text_config")
    return cast("Mapping[str, Any]", nested) if isinstance(nested, dict) else config


def _architecture(config: Mapping[str, Any]) -> str | None:
    listed = config.get("architectures")
    if isinstance(listed, list) and listed and isinstance(listed[0], str):
        return listed[0]
    kind = config.get("model_type")
    return kind if isinstance(kind, str) else None


def _first_whole(keys: tuple[str, ...], *configs: Mapping[str, Any]) -> int | None:
    for config in configs:
        for key in keys:
            value = token_id(config.get(key))
            if value is not None and value >= 2:
                return value
    return None


def _kv_bytes(config: Mapping[str, Any], *, without_kv: int) -> int | None:
    """Keys and values of one token in all layers at f16; `None` where a number is missing."""
    if config.get("kv_lora_rank") is not None:
        return None  # a compressed cache; its layout is the engine's own
    layers = _first_whole_any(config, "num_hidden_layers", "n_layer")
    heads = _first_whole_any(config, "num_attention_heads", "n_head")
    kv_heads = _first_whole_any(config, "num_key_value_heads") or heads
    hidden = _first_whole_any(config, "hidden_size", "n_embd")
    head_dim = _first_whole_any(config, "head_dim")
    if head_dim is None and hidden is not None and heads:
        head_dim = hidden // heads
    if layers is None or kv_heads is None or head_dim is None:
        return None
    return 2 * max(layers - without_kv, 0) * kv_heads * head_dim * _F16_BYTES


def _first_whole_any(config: Mapping[str, Any], *keys: str) -> int | None:
    for key in keys:
        value = token_id(config.get(key))
        if value:
            return value
    return None
