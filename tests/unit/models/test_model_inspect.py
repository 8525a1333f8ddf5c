"""A folder's manifest, and the sentence that each kind of broken folder gets."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from refloat.models.dimensions import read_dimensions
from refloat.models.error import IncompleteFolderError
from refloat.models.fingerprint import HashCache
from refloat.models.inspect import inspect_folder, read_sampling
from refloat.models.manifest import MANIFEST_VERSION, Manifest, SamplingDefaults
from refloat.models.progress import Progress

DATA = Path(__file__).parents[2] / "data"

EditJson = Callable[..., None]


def _inspect(folder: Path, context_length: int | None = None) -> Manifest:
    return inspect_folder(
        folder,
        source="test",
        hashes=HashCache(folder.parent / "hashes.json"),
        context_length=context_length,
    )


def test_inspect_complete_folder_describes_it() -> None:
    manifest = _inspect_data("tiny-llm")
    assert manifest.context_length == 4096
    assert manifest.eos_token_ids == (2030, 2028)
    assert manifest.bos_token_id == 2028
    assert manifest.architecture == "Qwen3ForCausalLM"
    assert not manifest.hybrid
    assert manifest.kv_bytes_per_token == 2 * 2 * 2 * 32 * 2
    assert manifest.weights_bytes == 459_041
    assert manifest.sampling == SamplingDefaults(temperature=0.6, top_p=0.95, top_k=20)
    assert len(manifest.model_hash) == 64


def _inspect_data(name: str) -> Manifest:
    return inspect_folder(DATA / name, source=name, hashes=HashCache(Path(os.devnull) / "x"))


def test_inspect_hybrid_model_is_told_by_config_and_by_graph(
    tmp_path: Path, edit_json: EditJson
) -> None:
    assert _inspect_data("tiny-hybrid").hybrid
    assert _inspect_data("tiny-hybrid").kv_bytes_per_token == 2 * 1 * 2 * 32 * 2
    copy = Path(shutil.copytree(DATA / "tiny-hybrid", tmp_path / "hybrid"))
    (copy / "config.json").unlink()
    assert _inspect(copy).hybrid


def test_inspect_context_is_option_then_manifest_then_config_then_gguf(
    tiny: Path, edit_json: EditJson
) -> None:
    (tiny / "gguf.json").write_text('{"context_length": 44}')
    assert _inspect(tiny).context_length == 4096
    kept = Manifest(MANIFEST_VERSION, "x", "y", 77)
    (tiny / "manifest.json").write_bytes(msgspec.json.encode(kept))
    assert _inspect(tiny).context_length == 77
    assert _inspect(tiny, 99).context_length == 99
    (tiny / "manifest.json").unlink()
    (tiny / "config.json").unlink()
    assert _inspect(tiny).context_length == 44
    (tiny / "gguf.json").unlink()
    assert _inspect(tiny).context_length is None


@pytest.mark.parametrize("content", ["{}", "[1]", "no json", '{"version": 1}'])
def test_inspect_manifest_of_another_program_is_ignored(tiny: Path, content: str) -> None:
    (tiny / "manifest.json").write_text(content)
    assert _inspect(tiny).context_length == 4096


@pytest.mark.parametrize(
    ("config", "context"),
    [
        ({"max_position_embeddings": 10}, 10),
        ({"n_positions": 11}, 11),
        ({"max_seq_len": 12}, 12),
        ({"text_config": {"max_position_embeddings": 13}}, 13),
        ({"max_position_embeddings": 14, "text_config": {"hidden_size": 1}}, 14),
        ({"max_position_embeddings": 15, "rope_scaling": {"type": "yarn", "factor": 4}}, 15),
        ({"max_position_embeddings": True}, None),
        ({"max_position_embeddings": "16"}, None),
        ({"max_position_embeddings": 0}, None),
        ({"max_position_embeddings": 10**30}, None),
        ({"max_position_embeddings": 10**30, "n_ctx": 17}, 17),
        ({"text_config": 3, "layer_types": 4, "architectures": 5}, None),
    ],
)
def test_dimensions_context_length_under_all_its_names(
    config: dict[str, object], context: int | None
) -> None:
    assert read_dimensions(config).context_length == context


@pytest.mark.parametrize(
    ("config", "hybrid"),
    [
        ({"layer_types": ["full_attention", "sliding_attention"]}, False),
        ({"layer_types": ["conv", "full_attention"]}, True),
        ({"text_config": {"layer_types": ["linear_attention"]}}, True),
        ({"mamba_d_state": 16}, True),
    ],
)
def test_dimensions_hybrid_layers_are_seen(config: dict[str, object], hybrid: bool) -> None:
    assert read_dimensions(config).hybrid is hybrid


def test_dimensions_token_id_zero_is_a_token() -> None:
    dimensions = read_dimensions({"bos_token_id": 0, "eos_token_id": [0, 0, 2, None, -1]})
    assert dimensions.bos_token_id == 0
    assert dimensions.eos_token_ids == (0, 2)


def test_sampling_without_do_sample_leaves_the_usual_defaults() -> None:
    values = {"temperature": 0.6, "top_p": 0.9}
    assert read_sampling({**values, "do_sample": False}) == SamplingDefaults()
    assert read_sampling(values) == SamplingDefaults()
    assert read_sampling({**values, "do_sample": True}).temperature == 0.6


def test_sampling_values_out_of_range_are_left_out() -> None:
    sampling = read_sampling(
        {"do_sample": True, "temperature": -1, "top_p": "x", "top_k": 0, "min_p": True}
    )
    assert sampling == SamplingDefaults()


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        ("rm openvino_tokenizer.xml", "has no tokenizer (openvino_tokenizer.xml)"),
        ("rm openvino_detokenizer.xml", "has no detokenizer (openvino_detokenizer.xml)"),
        ("rm openvino_model.xml", "has no openvino_model.xml"),
        ("rm openvino_model.bin", "openvino_model.bin is missing"),
        ("rm openvino_tokenizer.bin", "openvino_tokenizer.bin is missing"),
        ("cut openvino_model.bin", "openvino_model.bin is truncated: 459040 bytes"),
        ("cut openvino_detokenizer.bin", "openvino_detokenizer.bin is truncated"),
        ("cut openvino_model.xml", "openvino_model.xml is no complete OpenVINO graph"),
        ("spoil config.json", "config.json is no valid JSON"),
        ("spoil generation_config.json", "generation_config.json is no valid JSON"),
        ("list config.json", "config.json does not hold a JSON object"),
        ("deep config.json", "config.json is no valid JSON"),
        ("dir config.json", "config.json cannot be read"),
    ],
)
def test_inspect_broken_folder_names_file_and_fault(tiny: Path, spoil: str, reason: str) -> None:
    how, name = spoil.split()
    path = tiny / name
    if how == "cut":
        os.truncate(path, path.stat().st_size - (1 if name.endswith(".bin") else 20))
    else:
        path.unlink()
    if how == "dir":
        path.mkdir()
    content = {"spoil": "{", "list": "[]", "deep": "[" * 200_000}.get(how)
    if content is not None:
        path.write_text(content)
    with pytest.raises(IncompleteFolderError) as caught:
        _inspect(tiny)
    assert reason in caught.value.reason


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("model.Q4.gguf", "to serve a GGUF file give its path"),
        ("model.safetensors", "convert them first"),
        ("openvino_language_model.xml", "vision-language"),
        (None, "it is empty"),
    ],
)
def test_inspect_folder_of_another_kind_says_what_to_do(
    tmp_path: Path, name: str | None, reason: str
) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    if name:
        (folder / name).touch()
    with pytest.raises(IncompleteFolderError) as caught:
        _inspect(folder)
    assert reason in caught.value.reason


def test_model_hash_depends_on_content_and_not_on_place(tiny: Path, tmp_path: Path) -> None:
    first = _inspect(tiny).model_hash
    copy = Path(shutil.copytree(tiny, tmp_path / "elsewhere"))
    (copy / "README.md").write_text("words")
    assert _inspect(copy).model_hash == first
    weights = bytearray((copy / "openvino_model.bin").read_bytes())
    weights[1000] ^= 1
    (copy / "openvino_model.bin").write_bytes(weights)
    assert _inspect(copy).model_hash != first


def test_model_hash_reads_an_unchanged_file_once(
    tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = _inspect(tiny).model_hash

    def refuse(path: Path, read: object) -> str:
        raise AssertionError(f"{path} read again")

    monkeypatch.setattr("refloat.models.fingerprint.hash_file", refuse)
    assert _inspect(tiny).model_hash == first


def test_hash_cache_damaged_file_is_as_good_as_none(tmp_path: Path) -> None:
    (tmp_path / "hashes.json").write_text('{"/x": 3')
    file = tmp_path / "file"
    file.write_text("x")
    cache = HashCache(tmp_path / "hashes.json")
    assert cache.sha256(file, lambda _: None).startswith("2d711642")
    cache.save()
    assert (tmp_path / "hashes.json").read_text().startswith('{"')


def test_inspect_hashing_reports_bytes_up_to_the_total(tiny: Path) -> None:
    reports: list[Progress] = []
    inspect_folder(
        tiny, source="x", hashes=HashCache(tiny.parent / "h.json"), progress=reports.append
    )
    assert reports[-1].done == reports[-1].total
    assert [r.done for r in reports] == sorted(r.done for r in reports)
