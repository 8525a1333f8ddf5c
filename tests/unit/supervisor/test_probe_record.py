"""Probe records on disk."""

from pathlib import Path

import msgspec
import pytest

from refloat.supervisor.probe import ProbeStore, probe_key, probe_prompt
from refloat.wire.messages import EngineSpec

_SPEC = EngineSpec(engine="openvino_cb", model_path="/m", device="CPU", properties={"A": "1"})
_VERSIONS = {"openvino": "2026.4.1"}


def test_probe_first_answer_is_recorded_and_later_ones_compared(tmp_path: Path) -> None:
    assert ProbeStore(tmp_path / "probes").judge("k", (1, 2)) is None
    later = ProbeStore(tmp_path / "probes")
    assert later.judge("k", (1, 2)) is None
    wrong = later.judge("k", (1, 3))
    assert wrong is not None
    assert "[1, 3]" in wrong
    assert "[1, 2]" in wrong
    assert later.judge("other", (9,)) is None


def test_probe_without_tokens_is_wrong_and_not_recorded(tmp_path: Path) -> None:
    store = ProbeStore(tmp_path)
    assert store.judge("k", ()) is not None
    assert store.judge("k", (5,)) is None


def test_probe_forgotten_record_is_made_anew(tmp_path: Path) -> None:
    store = ProbeStore(tmp_path)
    store.judge("k", (1,))
    store.forget("k")
    assert store.judge("k", (2,)) is None
    assert ProbeStore(tmp_path).judge("k", (1,)) is not None


@pytest.mark.parametrize("content", [b"", b"{", b'{"ids": "x"}', b"\xff"])
def test_probe_broken_record_is_replaced(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "k.json").write_bytes(content)
    assert ProbeStore(tmp_path).judge("k", (1,)) is None
    assert ProbeStore(tmp_path).judge("k", (2,)) is not None


def test_probe_folder_that_cannot_be_written_still_compares_in_this_process(
    tmp_path: Path,
) -> None:
    (tmp_path / "file").write_text("in the way")
    store = ProbeStore(tmp_path / "file" / "probes")
    assert store.judge("k", (1,)) is None
    assert store.judge("k", (2,)) is not None


@pytest.mark.parametrize(
    "change",
    [
        {"engine": "scripted"},
        {"device": "GPU"},
        {"properties": {"A": "2"}},
        {"options": {"script": "x"}},
    ],
)
def test_probe_key_changes_with_what_decides_the_answer(change: dict[str, object]) -> None:
    base = probe_key(_SPEC, "hash", _VERSIONS)
    assert probe_key(msgspec.structs.replace(_SPEC, **change), "hash", _VERSIONS) != base
    assert probe_key(_SPEC, "other", _VERSIONS) != base
    assert probe_key(_SPEC, "hash", {"openvino": "2027"}) != base


def test_probe_key_ignores_where_kernels_are_cached_and_planned_faults() -> None:
    base = probe_key(_SPEC, "hash", _VERSIONS)
    moved = msgspec.structs.replace(
        _SPEC, properties={"A": "1", "CACHE_DIR": "/c"}, faults=({"at": "probe"},)
    )
    assert probe_key(moved, "hash", _VERSIONS) == base


def test_probe_prompt_stays_inside_a_small_vocabulary() -> None:
    assert probe_prompt(1_000) == list(range(1, 17))
    assert max(probe_prompt(5)) == 4
