"""Cache figures from a model's files."""

import json
from pathlib import Path
from typing import Any

import pytest

from refloat.engines.model_shape import (
    ModelShape,
    block_bytes,
    block_size_of,
    read_shape,
    shape_from_variables,
)

PLAIN = {
    "model_type": "qwen3",
    "vocab_size": 1000,
    "num_hidden_layers": 4,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "hidden_size": 512,
}


def write(folder: Path, name: str, document: Any) -> Path:
    (folder / name).write_text(json.dumps(document))
    return folder


def test_plain_config_gives_the_shape(tmp_path: Path) -> None:
    shape = read_shape(write(tmp_path, "config.json", PLAIN))
    assert shape == ModelShape(1000, False, 4, 2, 64, 0)


def test_nested_text_config_counts(tmp_path: Path) -> None:
    shape = read_shape(write(tmp_path, "config.json", {"model_type": "vl", "text_config": PLAIN}))
    assert (shape.vocab_size, shape.attention_layers) == (1000, 4)


@pytest.mark.parametrize(
    "change",
    [
        {"layer_types": ["linear_attention", "full_attention", "linear_attention", "x"]},
        {"model_type": "qwen3_next"},
        {"model_type": "qwen3_5_text"},
    ],
)
def test_recurrent_layers_make_it_hybrid(tmp_path: Path, change: dict[str, Any]) -> None:
    assert read_shape(write(tmp_path, "config.json", PLAIN | change)).hybrid
    nested = {"text_config": PLAIN | change}
    assert read_shape(write(tmp_path, "config.json", nested)).hybrid


def test_full_attention_alone_is_not_hybrid(tmp_path: Path) -> None:
    config = PLAIN | {"layer_types": ["full_attention", "sliding_attention"] * 2}
    shape = read_shape(write(tmp_path, "config.json", config))
    assert not shape.hybrid
    assert shape.attention_layers == 4


def test_state_of_linear_attention_is_counted_as_measured() -> None:
    folder = Path(__file__).parents[2] / "data" / "tiny-hybrid"
    assert read_shape(folder) == ModelShape(2048, True, 1, 2, 32, 12_288)


def test_conversion_facts_serve_without_a_config(tmp_path: Path) -> None:
    facts = {
        "architecture": "llama", "block_count": 30, "head_count": 9, "head_count_kv": 3,
        "embedding_length": 576, "vocab_size": 49_152,
    }  # fmt: skip
    shape = read_shape(write(tmp_path, "gguf.json", facts))
    assert shape == ModelShape(49_152, False, 30, 3, 64)
    assert block_bytes(shape, "CPU", None) == 437_760  # as measured on SmolLM2


@pytest.mark.parametrize("text", ["", "[]", "{", "null"])
def test_broken_side_file_says_nothing(tmp_path: Path, text: str) -> None:
    (tmp_path / "config.json").write_text(text)
    assert read_shape(tmp_path) == ModelShape(None, False, None, None, None)


def test_variables_of_a_network_give_the_shape() -> None:
    plain = [
        ("past_key_values.0.keypresent.0.key", [None, 3, None, 64]),
        ("past_key_values.0.valuepresent.0.key", [None, 3, None, 64]),
        ("past_key_values.1.keypresent.1.key", [None, 3, None, 64]),
    ]
    assert shape_from_variables(plain) == ModelShape(None, False, 2, 3, 64, 0)
    hybrid = [
        ("cache_params.past.ssm.0cache_params.present.ssm.0", [None, 4, 16, 16]),
        ("cache_params.past.conv.0cache_params.present.conv.0", [None, 128, 4]),
        ("cache_params.past.key.0cache_params.present.key.0", [None, 2, None, 32]),
        ("cache_params.past.value.0cache_params.present.value.0", [None, 2, None, 32]),
    ]
    assert shape_from_variables(hybrid) == ModelShape(None, True, 1, 2, 32, 6144)


def test_block_bytes_follow_the_precision() -> None:
    shape = ModelShape(None, False, 1, 1, 64)
    assert block_bytes(shape, "CPU", "f32") == 32 * 2 * 64 * 4
    assert block_bytes(shape, "GPU.1", "f16") == 16 * 2 * 64 * 2
    assert block_bytes(shape, "GPU", None) == 16 * 2 * 64 * 2
    assert block_bytes(ModelShape(None, False, None, 1, 64), "CPU", None) is None


def test_block_size_follows_the_device() -> None:
    assert [block_size_of(name) for name in ("CPU", "GPU", "gpu.0", "AUTO:GPU,CPU")] == [
        32, 16, 16, 16,
    ]  # fmt: skip
