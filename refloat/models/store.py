"""The cache of fetched and converted models under `$REFLOAT_HOME`: complete entries or none.

    entries/<slug>-<hash>/   one model, with `entry.json`; appears by one rename, never grows
    staging/                 what is being built; only ever touched under the entry's lock
    downloads/<name>/        files that entries are built from
    locks/                   one file per thing that is built; the kernel frees it with its process

What is built, and from what, is the caller's matter (`source_*.py`).
"""

import hashlib
import json
import os
import re
import secrets
import shutil
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path

import filelock
import msgspec

from refloat.models.error import ModelError
from refloat.models.in_use import RECORD_FILE, is_used
from refloat.models.manifest import MANIFEST_VERSION
from refloat.models.progress import Progress, ProgressSink, Stage

#: How long one process waits for another that builds the same model: a large download takes hours.
LOCK_LIMIT_S = 6 * 3600.0

_ENGINE_PACKAGES = ("openvino", "openvino-genai", "openvino-tokenizers")


class EntryRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """What an entry is, written beside it."""

    source: str
    source_hash: str
    manifest_version: int
    engine_versions: dict[str, str]
    created: str


@dataclass(frozen=True, slots=True)
class EntryKey:
    """What decides whether an entry can be used. Another engine version makes another conversion."""

    source: str
    source_hash: str
    engine_versions: Mapping[str, str]
    """Empty for files that are kept as they were fetched."""

    @property
    def name(self) -> str:
        """The entry's folder name."""
        parts = [self.source, self.source_hash, MANIFEST_VERSION, dict(self.engine_versions)]
        digest = hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()
        return f"{slug(self.source)}-{digest[:16]}"


@dataclass(frozen=True, slots=True)
class Entry:
    """One complete entry."""

    path: Path
    record: EntryRecord

    @property
    def size_bytes(self) -> int:
        """Size of its files."""
        return folder_bytes(self.path)

    @property
    def is_current(self) -> bool:
        """Whether this installation would use it."""
        versions = self.record.engine_versions
        return self.record.manifest_version == MANIFEST_VERSION and (
            not versions or versions == engine_versions()
        )


def slug(source: str) -> str:
    """A source as the beginning of a file name."""
    return re.sub(r"[^A-Za-z0-9.]+", "-", source).strip("-.")[:60] or "model"


def engine_versions() -> dict[str, str]:
    """Versions of the packages that decide how a conversion comes out; imports none of them."""
    found: dict[str, str] = {}
    for name in _ENGINE_PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = "missing"
    return found


def folder_bytes(folder: Path) -> int:
    """Size of all files below a folder; files that vanish meanwhile count nothing."""
    total = 0
    for root, _, names in os.walk(folder):
        for name in names:
            try:
                total += os.stat(os.path.join(root, name), follow_symlinks=False).st_size
            except FileNotFoundError:
                continue
    return total


class Store:
    """All entries below one folder. Any number of processes may use it at once."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.downloads = root / "downloads"
        self._entries = root / "entries"
        self._staging = root / "staging"
        self._locks = root / "locks"

    def find(self, key: EntryKey) -> Path | None:
        """The entry's folder, if it is complete."""
        path = self._entries / key.name
        return path if (path / RECORD_FILE).is_file() else None

    def obtain(
        self,
        key: EntryKey,
        build: Callable[[Path], None],
        progress: ProgressSink,
        *,
        resumable: bool = False,
    ) -> Path:
        """The entry's folder; `build` fills an empty folder if there is none yet.

        `resumable` keeps what a failed build left, for the next try. Raises what `build` raises, and
        `ModelError` when another process builds the same and does not end.
        """
        if found := self.find(key):
            return found
        with self.lock(key.name, progress):
            if found := self.find(key):
                return found
            staging = self._open_staging(key, resumable=resumable)
            try:
                build(staging)
                self._write_record(staging, key)
                return self._publish(staging, key)
            except BaseException:
                if not resumable:
                    shutil.rmtree(staging, ignore_errors=True)
                raise

    def discard(self, key: EntryKey, progress: ProgressSink) -> None:
        """Forget an entry that turned out to be damaged."""
        with self.lock(key.name, progress):
            self._remove(self._entries / key.name)

    def entries(self) -> list[Entry]:
        """All complete entries, oldest first."""
        found: list[Entry] = []
        for path in sorted(self._entries.glob("*")):
            try:
                record = msgspec.json.decode((path / RECORD_FILE).read_bytes(), type=EntryRecord)
            except (OSError, msgspec.DecodeError):
                continue
            found.append(Entry(path, record))
        return sorted(found, key=lambda entry: entry.record.created)

    def newest(self, source: str) -> Entry | None:
        """The latest current entry of a source: what to use when the source cannot be asked."""
        of_source = [e for e in self.entries() if e.record.source == source and e.is_current]
        return of_source[-1] if of_source else None

    def remove(self, name: str, progress: ProgressSink, *, force: bool = False) -> list[Entry]:
        """Remove the entries whose source or folder name is `name`, and their downloads.

        Raises `ModelError`, with nothing removed, where a running server uses one and `force` is not
        given: what it has loaded stays, but it could never load it again.
        """
        chosen = [e for e in self.entries() if name in (e.record.source, e.path.name)]
        used = [] if force else [e.path.name for e in chosen if is_used(e.path)]
        if used:
            raise ModelError(f"{used[0]} is used by a running server; --force removes it anyway")
        for entry in chosen:
            with self.lock(entry.path.name, progress):
                self._remove(entry.path)
        for source in {entry.record.source for entry in chosen}:
            if not any(entry.record.source == source for entry in self.entries()):
                with self.lock(f"download-{slug(source)}", progress):
                    shutil.rmtree(self.downloads / slug(source), ignore_errors=True)
        return chosen

    @contextmanager
    def lock(self, name: str, progress: ProgressSink) -> Generator[None]:
        """Hold a lock by name; says so once when it has to wait for another process."""
        self._locks.mkdir(parents=True, exist_ok=True)
        lock = filelock.FileLock(self._locks / f"{name}.lock")
        try:
            lock.acquire(timeout=0)
        except filelock.Timeout:
            progress(Progress(Stage.WAIT, "another process is at it; waiting for it to finish"))
            try:
                lock.acquire(timeout=LOCK_LIMIT_S, poll_interval=0.1)
            except filelock.Timeout:
                raise ModelError(
                    f"another process has held {lock.lock_file} for {LOCK_LIMIT_S / 3600:g} hours"
                ) from None
        try:
            yield
        finally:
            lock.release()

    def require_space(self, needed_bytes: int, what: str) -> None:
        """Raise `ModelError` now rather than run out of disk in the middle."""
        self.root.mkdir(parents=True, exist_ok=True)
        free = shutil.disk_usage(self.root).free
        if free < needed_bytes:
            raise ModelError(
                f"{what} needs {needed_bytes / 1e6:.0f} MB in {self.root}, which has "
                f"{free / 1e6:.0f} MB free; $REFLOAT_HOME may point elsewhere"
            )

    def _open_staging(self, key: EntryKey, *, resumable: bool) -> Path:
        """An empty folder of a name never used before: an orphan of a killed build that still
        writes into its own can then harm nobody. What earlier builds left is removed."""
        self._staging.mkdir(parents=True, exist_ok=True)
        if resumable:
            staging = self._staging / f"{key.name}.partial"
            staging.mkdir(exist_ok=True)
            return staging
        for left in self._staging.glob(f"{key.name}.*"):
            shutil.rmtree(left, ignore_errors=True)
        staging = self._staging / f"{key.name}.{os.getpid()}-{secrets.token_hex(4)}"
        staging.mkdir()
        return staging

    def _write_record(self, staging: Path, key: EntryKey) -> None:
        record = EntryRecord(
            source=key.source,
            source_hash=key.source_hash,
            manifest_version=MANIFEST_VERSION,
            engine_versions=dict(key.engine_versions),
            created=datetime.now(UTC).isoformat(timespec="microseconds"),
        )
        (staging / RECORD_FILE).write_bytes(msgspec.json.encode(record))

    def _publish(self, staging: Path, key: EntryKey) -> Path:
        """Flush, then rename: after a power cut an entry is whole or absent."""
        for path in [*staging.rglob("*"), staging]:
            descriptor = os.open(path, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
        target = self._entries / key.name
        self._entries.mkdir(parents=True, exist_ok=True)
        self._remove(target)  # a folder without a record: never complete
        staging.rename(target)
        return target

    def _remove(self, path: Path) -> None:
        """Out of sight by one rename first, so that nobody sees half an entry."""
        if not path.exists():
            return
        self._staging.mkdir(parents=True, exist_ok=True)
        doomed = self._staging / f"{path.name}.removed-{secrets.token_hex(4)}"
        path.rename(doomed)
        shutil.rmtree(doomed, ignore_errors=True)
