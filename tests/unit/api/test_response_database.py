"""What is kept of responses: by tenant, bounded, for a time, and whole conversations or nothing."""

import sqlite3
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from refloat.api.responses import database as database_module
from refloat.api.responses.database import ChainTooLongError, ResponseDatabase, StoredResponse

NOW_S = 4_000_000_000  # so far ahead that nothing of it is too old


def stored(
    name: str, tenant: str = "a", *, previous: str | None = None, size: int = 100, age_s: int = 0
) -> StoredResponse:
    return StoredResponse(
        name, tenant, previous, NOW_S - age_s, b"i" * (size // 2), b"o" * (size // 2)
    )


@pytest.fixture
def database(tmp_path: Path) -> ResponseDatabase:
    return ResponseDatabase(tmp_path / "r.sqlite3", max_bytes=1000, retention_s=3600)


def test_response_is_its_tenants_alone(database: ResponseDatabase) -> None:
    database.put(stored("x"))
    assert database.get("a", "x") == stored("x")
    assert database.get("b", "x") is None
    assert database.chain("b", "x", 1000) is None
    assert not database.delete("b", "x")
    assert database.delete("a", "x")
    assert database.get("a", "x") is None


def test_least_used_goes_first_and_the_heaviest_tenant_pays(database: ResponseDatabase) -> None:
    database.put(stored("small", "b"))
    for name in "pqr":
        database.put(stored(name, size=300))
    database.chain("a", "p", 1000)
    database.put(stored("s", size=300))
    assert database.get("a", "q") is None
    assert all(database.get("a", name) for name in "prs")
    assert database.get("b", "small")


def test_larger_than_everything_is_not_kept(database: ResponseDatabase) -> None:
    database.put(stored("x"))
    database.put(stored("huge", "b", size=1100))
    assert database.get("b", "huge") is None
    assert database.get("a", "x")


def test_old_response_is_gone(tmp_path: Path) -> None:
    database = ResponseDatabase(tmp_path / "r.sqlite3", max_bytes=1000, retention_s=3600)
    database.put(stored("old", age_s=NOW_S - 1000))
    assert database.get("a", "old") is None


def test_chain_is_whole_or_not_at_all(database: ResponseDatabase) -> None:
    database.put(stored("x"))
    database.put(stored("y", previous="x"))
    database.put(stored("z", previous="y"))
    found = database.chain("a", "z", 300)
    assert found is not None
    assert [one.id for one in found] == ["x", "y", "z"]
    with pytest.raises(ChainTooLongError):
        database.chain("a", "z", 299)
    database.delete("a", "x")
    assert database.chain("a", "z", 300) is None


def test_loop_in_a_chain_ends(database: ResponseDatabase) -> None:
    database.put(stored("x", previous="x"))
    with pytest.raises(ChainTooLongError):
        database.chain("a", "x", 1000)


def test_chain_that_is_used_outlives_what_is_not(database: ResponseDatabase) -> None:
    for name, previous in (("x", None), ("idle", None), ("y", "x")):
        database.put(stored(name, previous=previous, size=300))
    database.chain("a", "y", 1000)
    database.put(stored("new", size=300))
    assert database.get("a", "idle") is None
    assert database.chain("a", "y", 1000)


def test_no_statement_reads_through_all_that_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    connect = sqlite3.connect

    def traced(*arguments: Any, **options: Any) -> sqlite3.Connection:
        connection = connect(*arguments, **options)
        connection.set_trace_callback(said.append)
        return connection

    monkeypatch.setattr(sqlite3, "connect", traced)
    database = ResponseDatabase(tmp_path / "r.sqlite3", max_bytes=250, retention_s=3600)
    for name in "xyz":
        database.put(stored(name))
    database.chain("a", "z", 1000)
    database.delete("a", "z")
    monkeypatch.undo()
    verbs = ("SELECT", "INSERT", "UPDATE", "DELETE")
    statements = {text for text in said if text.startswith(verbs)}
    assert len(statements) > 5
    with connect(tmp_path / "r.sqlite3") as db:
        plans = [
            (row[-1], text)
            for text in statements
            for row in db.execute(f"EXPLAIN QUERY PLAN {text}")
        ]
    scans = [plan for plan in plans if plan[0].startswith("SCAN responses")]
    assert scans, "the sums at least are counted through"
    assert [plan for plan in scans if "COVERING INDEX" not in plan[0]] == []
    assert [plan for plan in scans if "MAX(used)" in plan[1]] == []


def test_many_at_once_each_have_their_turn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database_module, "_LOCK_WAIT_S", 0.0)  # who polls has lost
    database = ResponseDatabase(tmp_path / "r.sqlite3", max_bytes=1 << 20, retention_s=3600)
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(database.put, [stored(f"{n}", size=10_000) for n in range(24)]))
    assert all(database.get("a", f"{n}") for n in range(24))
