"""Answers of `/responses` in one SQLite file: by tenant, for a time, the least used going first.

Everything here blocks; `store.py` calls it beside the event loop.
"""

import os
import sqlite3
import threading
from collections.abc import Generator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

_SCHEMA = """
CREATE TABLE IF NOT EXISTS responses (
  id TEXT PRIMARY KEY, tenant TEXT NOT NULL, previous TEXT, created_s INTEGER NOT NULL,
  used INTEGER NOT NULL, size INTEGER NOT NULL, items BLOB NOT NULL, answer BLOB NOT NULL
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS by_tenant ON responses (tenant, used, size);
CREATE INDEX IF NOT EXISTS by_order ON responses (used);
CREATE INDEX IF NOT EXISTS by_age ON responses (created_s);
DROP INDEX IF EXISTS by_use;
"""
_LOCK_WAIT_S = 5.0
#: For those of this process.
_TURN_WAIT_S = 10.0
_NEXT_USE = "(SELECT COALESCE(MAX(used), 0) + 1 FROM responses)"


class StoredResponse(NamedTuple):
    """One answer and what was asked for it."""

    id: str
    tenant: str
    previous: str | None
    created_s: int
    """Unix time."""
    items: bytes
    """The input's items, as JSON."""
    answer: bytes
    """The body of the answer."""


class ChainTooLongError(Exception):
    """A conversation has more bytes than were asked for."""


def _now_s() -> int:
    return int(datetime.now(UTC).timestamp())


class ResponseDatabase:
    """Any thread may call; every call has a connection of its own. All raise `sqlite3.Error`."""

    def __init__(self, path: Path, *, max_bytes: int, retention_s: float) -> None:
        self._path = path
        self._max_bytes = max_bytes
        self._retention_s = retention_s
        self._turn = threading.Lock()
        """SQLite's own lock is polled for, and some who wait never get it."""

    def put(self, stored: StoredResponse) -> None:
        """Keep it, and make room for it: of the tenant who has most, what was used least lately."""
        size = len(stored.items) + len(stored.answer)
        with self._connection() as db:
            db.execute("DELETE FROM responses WHERE created_s < ?", (self._oldest_s(),))
            db.execute(
                f"INSERT OR REPLACE INTO responses VALUES (?, ?, ?, ?, {_NEXT_USE}, ?, ?, ?)",
                (*stored[:4], size, *stored[4:]),
            )
            held = dict(db.execute("SELECT tenant, SUM(size) FROM responses GROUP BY tenant"))
            while sum(held.values()) > self._max_bytes:
                heaviest = max(held, key=lambda tenant: held[tenant])
                found = "SELECT id, size FROM responses WHERE tenant = ? ORDER BY used LIMIT 1"
                [(oldest, freed)] = db.execute(found, (heaviest,))
                db.execute("DELETE FROM responses WHERE id = ?", (oldest,))
                held[heaviest] -= freed

    def get(self, tenant: str, response_id: str) -> StoredResponse | None:
        """The tenant's answer of that id."""
        with self._connection() as db:
            return self._row(db, tenant, response_id)

    def chain(self, tenant: str, response_id: str, most_bytes: int) -> list[StoredResponse] | None:
        """The conversation that ends with this answer, from its beginning; `None`: something of it is
        not kept. Raises `ChainTooLongError`. All of it counts as used now."""
        found: list[StoredResponse] = []
        at: str | None = response_id
        size = 0
        with self._connection() as db:
            while at is not None:
                row = self._row(db, tenant, at)
                if row is None:
                    return None
                size += len(row.items) + len(row.answer)
                if size > most_bytes:
                    raise ChainTooLongError
                found.append(row)
                at = row.previous
            for row in reversed(found):  # what came first goes first
                db.execute(f"UPDATE responses SET used = {_NEXT_USE} WHERE id = ?", (row.id,))
        return found[::-1]

    def delete(self, tenant: str, response_id: str) -> bool:
        """Forget it. Whether it was there."""
        with self._connection() as db:
            gone = db.execute(
                "DELETE FROM responses WHERE id = ? AND tenant = ?", (response_id, tenant)
            )
            return gone.rowcount > 0

    def _row(self, db: sqlite3.Connection, tenant: str, response_id: str) -> StoredResponse | None:
        columns = ", ".join(StoredResponse._fields)
        rows = db.execute(
            f"SELECT {columns} FROM responses WHERE id = ? AND tenant = ? AND created_s >= ?",
            (response_id, tenant, self._oldest_s()),
        ).fetchall()
        return StoredResponse(*rows[0]) if rows else None

    def _oldest_s(self) -> float:
        return _now_s() - self._retention_s

    @contextmanager
    def _connection(self) -> Generator[sqlite3.Connection]:
        if not self._turn.acquire(timeout=_TURN_WAIT_S):
            raise sqlite3.OperationalError("too many want to read and write")
        try:
            with self._opened() as db:
                yield db
        finally:
            self._turn.release()

    @contextmanager
    def _opened(self) -> Generator[sqlite3.Connection]:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        if not self._path.exists():
            # what callers wrote is for nobody else of this machine
            os.close(os.open(self._path, os.O_CREAT | os.O_RDWR, 0o600))
        with closing(sqlite3.connect(self._path, timeout=_LOCK_WAIT_S)) as db:
            db.execute("PRAGMA secure_delete = ON")
            db.executescript(_SCHEMA)
            with db:
                db.execute("BEGIN IMMEDIATE")
                yield db
