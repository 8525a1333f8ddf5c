"""The folder of incidents: whole records, names from outside, bounds, records that are broken."""

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pytest

from refloat.observe.device import DeviceFacts
from refloat.observe.incident_record import (
    SCHEMA_VERSION,
    Incident,
    decode_incident,
    encode_incident,
)
from refloat.observe.incidents import IncidentStore, UnknownIncidentError, new_incident_id
from refloat.wire.faults import FaultKind

START = datetime(2026, 1, 2, 3, 4, 5, 678_000, tzinfo=UTC)


def incident(number: int = 0, model: str = "m") -> Incident:
    return Incident(
        id=new_incident_id(model, START + timedelta(seconds=number)),
        model=model,
        opened="2026-01-02T03:04:05.678+00:00",
        worker_id=3,
        pid=4242,
        cause=FaultKind.STALL,
        reason="no progress for 10.0 s while stepping (step 7)",
        state="ready",
        device=DeviceFacts("GPU.0", "0000:03:00.0", "xe"),
        engine="openvino_cb",
        properties={"CACHE_DIR": "/x", "ENABLE_WEIGHTLESS": True},
    )


def put(store: IncidentStore, number: int, size_bytes: int = 0) -> str:
    record = incident(number)
    store.write(record.id, encode_incident(record))
    if size_bytes:
        store.write_file(record.id, "stderr.txt", b"x" * size_bytes)
    return record.id


def test_incident_written_is_read_the_same(tmp_path: Path) -> None:
    store = IncidentStore(tmp_path / "incidents")
    record = incident()
    store.write(record.id, encode_incident(record))
    assert store.read(record.id) == record
    assert store.ids() == [record.id]
    assert oct((tmp_path / "incidents" / record.id).stat().st_mode & 0o777) == "0o700"
    assert os.listdir(tmp_path / "incidents" / record.id) == ["incident.json"]


def test_incident_id_is_safe_and_sorts_by_time() -> None:
    early = new_incident_id("../../etc/pass wd", START)
    late = new_incident_id("a", START + timedelta(milliseconds=1))
    assert early.startswith("20260102T030405.678Z-.._.._etc_pass_wd-")
    assert "/" not in early
    assert early < late
    assert new_incident_id("m", START) != new_incident_id("m", START)
    IncidentStore(Path("x")).path(new_incident_id("", START))


@pytest.mark.parametrize(
    "name", ["..", "../x", "", "20260102T030405.678Z-../..-aaaaaa", "incident.json", "x" * 5000]
)
def test_incident_name_from_outside_leads_nowhere_else(tmp_path: Path, name: str) -> None:
    store = IncidentStore(tmp_path)
    with pytest.raises(UnknownIncidentError):
        store.read(name)
    with pytest.raises(UnknownIncidentError):
        store.find(name)


def test_incident_is_found_by_the_end_or_the_begin_of_its_name(tmp_path: Path) -> None:
    store = IncidentStore(tmp_path)
    first, second = put(store, 0), put(store, 1)
    assert store.find(first) == first
    assert store.find(second[-6:]) == second
    with pytest.raises(UnknownIncidentError, match="2 incidents"):
        store.find("2026")


def test_prune_removes_the_oldest_beyond_the_count(tmp_path: Path) -> None:
    store = IncidentStore(tmp_path, max_incidents=3)
    ids = [put(store, number) for number in range(5)]
    assert store.prune(keep=ids[4]) == ids[:2]
    assert store.ids() == ids[2:]
    assert store.prune() == []


def test_prune_removes_the_oldest_beyond_the_bytes_but_never_the_one_to_keep(
    tmp_path: Path,
) -> None:
    store = IncidentStore(tmp_path, max_total_bytes=25_000)
    ids = [put(store, number, size_bytes=10_000) for number in range(4)]
    assert store.prune(keep=ids[0]) == [ids[1], ids[2]]
    assert store.ids() == [ids[0], ids[3]]
    huge = put(store, 9, size_bytes=100_000)
    store.prune(keep=huge)
    assert store.ids() == [huge]


def test_summaries_are_newest_first_and_pass_over_what_is_broken(tmp_path: Path) -> None:
    store = IncidentStore(tmp_path)
    ids = [put(store, number) for number in range(3)]
    store.write(ids[1], b"{ not json")
    (tmp_path / "a stranger").mkdir()
    assert [summary.id for summary in store.summaries()] == [ids[2], ids[0]]
    assert [summary.id for summary in store.summaries(most=1)] == [ids[2]]
    with pytest.raises(ValueError, match="malformed"):
        store.read(ids[1])


def test_record_of_a_newer_version_is_refused() -> None:
    newer = msgspec.structs.replace(incident(), schema=SCHEMA_VERSION + 1)
    with pytest.raises(ValueError, match="newer"):
        decode_incident(encode_incident(newer))


def test_missing_evidence_is_on_record_once() -> None:
    record = incident()
    record.miss("kernel log", "/dev/kmsg: Permission denied")
    record.miss("kernel log", "/dev/kmsg: Permission denied")
    assert len(record.missing) == 1


def test_empty_folder_has_no_incidents(tmp_path: Path) -> None:
    store = IncidentStore(tmp_path / "none")
    assert store.ids() == []
    assert store.summaries() == []
    assert store.prune() == []
