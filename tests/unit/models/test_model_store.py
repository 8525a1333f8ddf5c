"""The cache: entries are whole or absent, builders take turns, what is left over goes."""

import threading
from pathlib import Path

import pytest

from refloat.models.error import ModelError
from refloat.models.progress import Progress, Stage, ignore_progress
from refloat.models.store import EntryKey, Store, engine_versions, slug
from refloat.testing.patience import DEFAULT_DEADLINE_S

KEY = EntryKey("owner/name", "abc", {})


def _fill(staging: Path) -> None:
    (staging / "model.bin").write_bytes(b"weights")


def _files(root: Path) -> set[str]:
    return {str(p.relative_to(root)) for p in (root / "staging").rglob("*") if p.is_file()}


def test_store_builds_once_and_finds_it_again(tmp_path: Path) -> None:
    store = Store(tmp_path)
    path = store.obtain(KEY, _fill, ignore_progress)
    assert (path / "model.bin").read_bytes() == b"weights"

    def refuse(staging: Path) -> None:
        raise AssertionError("built twice")

    assert Store(tmp_path).obtain(KEY, refuse, ignore_progress) == path


def test_store_failed_build_leaves_nothing(tmp_path: Path) -> None:
    store = Store(tmp_path)

    def fail(staging: Path) -> None:
        _fill(staging)
        raise ModelError("no")

    with pytest.raises(ModelError, match="no"):
        store.obtain(KEY, fail, ignore_progress)
    assert store.find(KEY) is None
    assert _files(tmp_path) == set()
    assert (store.obtain(KEY, _fill, ignore_progress) / "model.bin").is_file()


def test_store_killed_build_is_cleaned_by_the_next(tmp_path: Path) -> None:
    left = tmp_path / "staging" / f"{KEY.name}.123-dead"
    left.mkdir(parents=True)
    _fill(left)
    Store(tmp_path).obtain(KEY, _fill, ignore_progress)
    assert not left.exists()


def test_store_resumable_build_finds_what_the_last_one_left(tmp_path: Path) -> None:
    store = Store(tmp_path)

    def half(staging: Path) -> None:
        _fill(staging)
        raise ModelError("network")

    def rest(staging: Path) -> None:
        assert (staging / "model.bin").is_file()

    with pytest.raises(ModelError):
        store.obtain(KEY, half, ignore_progress, resumable=True)
    assert store.find(KEY) is None
    store.obtain(KEY, rest, ignore_progress, resumable=True)


def test_store_second_builder_waits_says_so_and_uses_the_first_ones(tmp_path: Path) -> None:
    inside, go_on, said = threading.Event(), threading.Event(), threading.Event()
    reports: list[Progress] = []
    found: list[Path] = []

    def slow(staging: Path) -> None:
        _fill(staging)
        inside.set()
        assert go_on.wait(DEFAULT_DEADLINE_S)

    def refuse(staging: Path) -> None:
        raise AssertionError("built twice")

    def note(progress: Progress) -> None:
        reports.append(progress)
        said.set()

    first = threading.Thread(target=Store(tmp_path).obtain, args=(KEY, slow, ignore_progress))
    second = threading.Thread(
        target=lambda: found.append(Store(tmp_path).obtain(KEY, refuse, note))
    )
    first.start()
    assert inside.wait(DEFAULT_DEADLINE_S)
    second.start()
    assert said.wait(DEFAULT_DEADLINE_S)
    go_on.set()
    first.join(DEFAULT_DEADLINE_S)
    second.join(DEFAULT_DEADLINE_S)
    assert [report.stage for report in reports] == [Stage.WAIT]
    assert found == [Store(tmp_path).find(KEY)]


def test_store_other_engine_version_is_another_entry() -> None:
    versions = engine_versions()
    newer = {**versions, "openvino": "9999.0"}
    assert EntryKey("s", "h", versions).name != EntryKey("s", "h", newer).name
    assert EntryKey("s", "h", versions).name == EntryKey("s", "h", dict(versions)).name


def test_store_newest_is_the_latest_current_one(tmp_path: Path) -> None:
    store = Store(tmp_path)
    for source_hash in ("one", "two"):
        store.obtain(EntryKey("s", source_hash, {}), _fill, ignore_progress)
    store.obtain(EntryKey("s", "three", {"openvino": "1999.0"}), _fill, ignore_progress)
    newest = store.newest("s")
    assert newest is not None
    assert newest.record.source_hash == "two"
    assert store.newest("t") is None


def test_store_remove_takes_entry_and_downloads(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.obtain(KEY, _fill, ignore_progress)
    store.obtain(EntryKey("other", "x", {}), _fill, ignore_progress)
    (store.downloads / slug("owner/name")).mkdir(parents=True)
    assert [entry.record.source for entry in store.remove("owner/name", ignore_progress)] == [
        "owner/name"
    ]
    assert [entry.record.source for entry in store.entries()] == ["other"]
    assert not (store.downloads / slug("owner/name")).exists()
    assert _files(tmp_path) == set()
    assert store.remove("nope", ignore_progress) == []


def test_store_damaged_record_is_no_entry(tmp_path: Path) -> None:
    store = Store(tmp_path)
    path = store.obtain(KEY, _fill, ignore_progress)
    (path / "entry.json").write_text("{")
    assert store.entries() == []


def test_store_too_little_space_is_said_beforehand(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"needs \d+ MB .* MB free"):
        Store(tmp_path).require_space(10**18, "this")


@pytest.mark.parametrize("source", ["../../etc", "a/b:c.gguf", "", "...", "ü" * 100])
def test_slug_is_a_harmless_file_name(source: str) -> None:
    name = slug(source)
    assert name
    assert "/" not in name
    assert not name.startswith(".")
    assert len(name) <= 60
