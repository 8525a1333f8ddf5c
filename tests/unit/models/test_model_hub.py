"""Models from a hub: what is fetched, what is used without network, and each refusal's sentence."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from refloat.config.schema import ModelConfig
from refloat.models.error import ModelError
from refloat.models.progress import Progress, Stage
from refloat.models.resolve import ResolvedModel, resolve

if TYPE_CHECKING:
    from tests.unit.models.conftest import HubStandIn

DATA = Path(__file__).parents[2] / "data"
REPO = "owner/tiny-llm"


def _files() -> dict[str, bytes]:
    files = {path.name: path.read_bytes() for path in (DATA / "tiny-llm").iterdir()}
    return {**files, "README.md": b"words", "original/model.safetensors": b"0" * 999}


def _resolve(model: str = REPO) -> ResolvedModel:
    return resolve(ModelConfig(model))


def _reason(model: str = REPO) -> str:
    with pytest.raises(ModelError) as caught:
        _resolve(model)
    return caught.value.reason


def test_hub_ir_repository_is_fetched_once(hub: HubStandIn) -> None:
    hub.repos[REPO] = _files()
    reports: list[Progress] = []
    resolved = resolve(ModelConfig(REPO), reports.append)
    assert resolved.name == REPO
    assert resolved.manifest.context_length == 4096
    assert resolved.manifest.source == REPO
    assert resolved.path is not None
    names = {path.name for path in resolved.path.iterdir()}
    assert names == {*_files(), "entry.json"} - {"README.md", "original/model.safetensors"}
    downloads = [report for report in reports if report.stage is Stage.DOWNLOAD]
    assert downloads[-1].done == downloads[-1].total
    fetched = len(hub.fetched())
    assert _resolve().path == resolved.path
    assert len(hub.fetched()) == fetched


def test_hub_unreachable_uses_the_newest_snapshot(
    hub: HubStandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.repos[REPO] = _files()
    first = _resolve()
    hub.status = 503
    assert _resolve().path == first.path
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    assert _resolve().path == first.path


def test_hub_new_commit_is_a_new_snapshot(hub: HubStandIn) -> None:
    hub.repos[REPO] = _files()
    first = _resolve()
    hub.commit = "f" * 40
    hub.repos[REPO]["config.json"] = _files()["config.json"].replace(
        b'embeddings": 4096', b'embeddings": 2048'
    )
    second = _resolve()
    assert second.path != first.path
    assert second.manifest.context_length == 2048


def test_hub_token_is_sent(hub: HubStandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    hub.repos[REPO] = _files()
    hub.token = "hf_secret"
    assert "needs HF_TOKEN" in _reason()
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    assert _resolve().name == REPO


def test_hub_gguf_repository_is_converted(
    hub: HubStandIn, copying_convert: Callable[[str], Path], gguf: Callable[..., bytes]
) -> None:
    hub.repos["owner/one"] = {"model.gguf": gguf("qwen3"), "README.md": b""}
    resolved = _resolve("owner/one")
    assert resolved.name == "owner/one"
    assert resolved.manifest.source == "owner/one"
    assert resolved.manifest.context_length == 4096
    hub.status = 500
    assert _resolve("owner/one").path == resolved.path


def test_hub_several_ggufs_ask_for_one(
    hub: HubStandIn, copying_convert: Callable[[str], Path], gguf: Callable[..., bytes]
) -> None:
    hub.repos["owner/many"] = {"a.Q4.gguf": gguf("llama"), "sub/b[8].gguf": gguf("qwen2")}
    assert "has 2 GGUF files: name one, as owner/many:a.Q4.gguf" in _reason("owner/many")
    assert _resolve("owner/many:a.Q4.gguf").name == "owner/many"
    assert _resolve("owner/many:sub/b[8].gguf").name == "owner/many"
    assert "has no file c.gguf; its GGUF files: a.Q4.gguf, sub/b[8].gguf" in _reason(
        "owner/many:c.gguf"
    )


def test_hub_connection_that_breaks_off_loses_nothing(hub: HubStandIn) -> None:
    hub.repos[REPO] = _files()
    hub.cut_bytes["openvino_model.bin"] = 100_000
    assert _resolve().manifest.weights_bytes == len(_files()["openvino_model.bin"])
    assert hub.fetched().count("openvino_model.bin") == 2


def test_hub_failed_download_goes_on_where_it_stopped(hub: HubStandIn) -> None:
    hub.repos[REPO] = _files()
    hub.missing.add("tokenizer.json")
    assert "goes on where it stopped next time" in _reason()
    hub.missing.clear()
    _resolve()
    assert hub.fetched().count("openvino_model.xml") == 1


def test_hub_repository_without_tokenizer_says_so(hub: HubStandIn) -> None:
    hub.repos[REPO] = {n: c for n, c in _files().items() if "tokenizer" not in n}
    assert "has no tokenizer" in _reason()


@pytest.mark.parametrize(
    ("files", "reason"),
    [
        ({"model.safetensors": b"x"}, "neither OpenVINO IR (openvino_model.xml) nor a GGUF file"),
        ({}, "neither OpenVINO IR"),
        (None, "no such model on the hub"),
    ],
)
def test_hub_unusable_repository_says_what_it_lacks(
    hub: HubStandIn, files: dict[str, bytes] | None, reason: str
) -> None:
    if files is not None:
        hub.repos[REPO] = files
    assert reason in _reason()


def test_hub_refusals_are_sentences(hub: HubStandIn) -> None:
    hub.gated = True
    assert "is gated: accept its terms on the hub and set HF_TOKEN" in _reason()
    hub.gated, hub.status = False, 418
    assert "refused owner/tiny-llm with status 418" in _reason()
    hub.status = 503
    assert f"the model hub ({hub.endpoint}) cannot be reached" in _reason()
    assert "no usable hub id" in _reason("owner/a--b")


def test_hub_file_outside_its_repository_is_not_fetched(
    hub: HubStandIn, gguf: Callable[..., bytes], refloat_home: Path
) -> None:
    hub.repos["owner/escape"] = {"../../../../escaped.gguf": gguf("qwen3")}
    assert "owner/escape cannot be fetched: Invalid filename" in _reason("owner/escape")
    assert not list(refloat_home.parent.rglob("escaped.gguf"))
