"""What is kept of responses: by tenant, bounded, for a time, and whole conversations or nothing."""

from pathlib import Path

import pytest

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
