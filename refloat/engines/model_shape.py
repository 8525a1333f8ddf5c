"""What a model folder says about its model's cache, before anything is loaded.

Used to turn a cache size in bytes into blocks and to check ids; the engine's own figures, known after
its first step, are not found here. Pure but for reading side files.
"""

import json
import math
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, cast

#: Model types with recurrent layers whose config.json need not list layer types.
_HYBRID_TYPES = ("qwen3_5", "qwen3_next", "mamba", "jamba", "zamba", "lfm2", "falcon_h1", "bamba")
_RECURRENT_LAYERS = frozenset({"linear_attention", "mamba", "mamba2", "conv", "recurrent", "ssm"})

_PRECISION_BYTES = {"f32": 4.0, "f16": 2.0, "bf16": 2.0, "u8": 1.0, "i8": 1.0, "u4": 0.5, "i4": 0.5}
_CPU_BLOCK_SIZE = 32
_GPU_BLOCK_SIZE = 16
_STATE_NUMBER_BYTES = 4
_KEY_VARIABLE = re.compile(r"\.key(\.|$)")
#: By-channel quantization keeps eight bytes of scale and zero point for each channel of a block.
_SCALE_BYTES = 8


class ModelShape(NamedTuple):
    """The figures that a cache's size follows from; `None` where the files do not say."""

    vocab_size: int | None
    hybrid: bool
    attention_layers: int | None
    kv_heads: int | None
    head_size: int | None
    state_bytes: int = 0
    """Recurrent state of one sequence (hybrid models); 0 where unknown."""


def read_shape(folder: Path) -> ModelShape:
    """From config.json (a nested `text_config` counts), else from the `gguf.json` of a conversion."""
    config = _read_json(folder / "config.json")
    if config:
        return _from_config(config)
    gguf = _read_json(folder / "gguf.json")
    heads, width = _number(gguf, "head_count"), _number(gguf, "embedding_length")
    return ModelShape(
        vocab_size=_number(gguf, "vocab_size"),
        hybrid=False,  # the engine's GGUF reader knows none
        attention_layers=_number(gguf, "block_count"),
        kv_heads=_number(gguf, "head_count_kv") or heads,
        head_size=_number(gguf, "key_length") or (width // heads if width and heads else None),
    )


def shape_from_variables(variables: Iterable[tuple[str, Sequence[int | None]]]) -> ModelShape:
    """From the names and shapes of an IR's state variables, for folders without side files."""
    layers, heads, size, state = 0, None, None, 0
    for name, dims in variables:
        if "conv" in name or "ssm" in name:
            state += _STATE_NUMBER_BYTES * math.prod(dim or 1 for dim in dims)
        elif len(dims) == 4 and _KEY_VARIABLE.search(name.split("present")[0]):
            layers, heads, size = layers + 1, dims[1], dims[3]
    return ModelShape(None, state > 0, layers or None, heads, size, state)


def block_size_of(device: str) -> int:
    """Tokens in a KV block on this device, unless a measurement says otherwise."""
    return _GPU_BLOCK_SIZE if "GPU" in device.upper() else _CPU_BLOCK_SIZE


def block_bytes(shape: ModelShape, device: str, precision: str | None) -> int | None:
    """Bytes of one KV block over all layers, by the shapes; `None` if they are not known.

    Where the plugin chooses the precision itself, the larger of its choices is assumed: a cache may
    be smaller than asked for, never larger.
    """
    if not (shape.attention_layers and shape.kv_heads and shape.head_size):
        return None
    head, tokens = shape.head_size, block_size_of(device)
    is_gpu = "GPU" in device.upper()
    if precision is None:
        # the CPU plugin quantizes by default, but was seen to leave small heads at 16 bit
        precision = "u8" if not is_gpu and head >= 64 else "f16"
    width = _PRECISION_BYTES.get(precision.lower(), 2.0)
    vector = head * width
    scales = 0.0
    if width < 2:
        scales = _SCALE_BYTES * head / tokens + _SCALE_BYTES  # keys by channel, values by token
    per_token = 2 * vector + scales
    return int(shape.attention_layers * shape.kv_heads * tokens * per_token)


def _from_config(config: dict[str, Any]) -> ModelShape:
    nested = config.get("text_config")
    text = {**config, **cast("dict[str, Any]", nested)} if isinstance(nested, dict) else config
    heads, width = _number(text, "num_attention_heads"), _number(text, "hidden_size")
    layers = _number(text, "num_hidden_layers")
    kinds = text.get("layer_types")
    recurrent = 0
    if isinstance(kinds, list):
        recurrent = sum(kind in _RECURRENT_LAYERS for kind in cast("list[Any]", kinds))
    state = recurrent * _state_numbers(text) * _STATE_NUMBER_BYTES
    types = f"{text.get('model_type', '')} {config.get('model_type', '')}"
    return ModelShape(
        vocab_size=_number(text, "vocab_size"),
        hybrid=recurrent > 0 or any(name in types for name in _HYBRID_TYPES),
        attention_layers=layers - recurrent if layers else None,
        kv_heads=_number(text, "num_key_value_heads") or heads,
        head_size=_number(text, "head_dim") or (width // heads if width and heads else None),
        state_bytes=state,
    )


def _state_numbers(text: dict[str, Any]) -> int:
    """Numbers in one linear-attention layer's state: the matrix of each head, and the convolution."""
    keys, key_size = _number(text, "linear_num_key_heads"), _number(text, "linear_key_head_dim")
    values = _number(text, "linear_num_value_heads")
    value_size = _number(text, "linear_value_head_dim")
    if not (keys and key_size and values and value_size):
        return 0
    channels = 2 * keys * key_size + values * value_size
    return values * key_size * value_size + channels * (
        _number(text, "linear_conv_kernel_dim") or 4
    )


def _read_json(path: Path) -> dict[str, Any]:
    """An object, or nothing: a broken side file must not keep a model from loading."""
    try:
        document: Any = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return cast("dict[str, Any]", document) if isinstance(document, dict) else {}


def _number(document: dict[str, Any], name: str) -> int | None:
    value = document.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None
