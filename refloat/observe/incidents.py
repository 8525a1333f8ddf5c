"""The folder of incidents: written, listed, read, and kept within its bounds. Blocking file work only.

    incidents/20260102T030405.678Z-smollm2-1a2b3c/incident.json, stderr.txt, stacks.txt, kernel.log, …

What a record means is in `incident_record.py`; when one is written is the supervisor's affair.
"""

import os
import re
import secrets
import shutil
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from refloat.observe.incident_record import Incident, IncidentSummary, decode_incident

RECORD = "incident.json"
MAX_INCIDENTS = 100
MAX_TOTAL_BYTES = 2**30
_ID = re.compile(r"[0-9]{8}T[0-9]{6}\.[0-9]{3}Z-[A-Za-z0-9._-]{1,48}-[0-9a-f]{6}")
_STRANGE = re.compile(r"[^A-Za-z0-9._-]+")
_MODEL_CHARS = 48
_RECORD_BYTES = 4 * 1024 * 1024


class UnknownIncidentError(LookupError):
    """No incident, or more than one, goes by that name."""


def new_incident_id(model: str, now: datetime | None = None) -> str:
    """Sorts by time; safe as a folder's name whatever the model is called."""
    moment = datetime.now(UTC) if now is None else now
    time = f"{moment:%Y%m%dT%H%M%S}.{moment.microsecond // 1000:03d}Z"
    name = _STRANGE.sub("_", model)[:_MODEL_CHARS] or "_"
    return f"{time}-{name}-{secrets.token_hex(3)}"


class IncidentStore:
    """One folder, which several servers of a user may share. Readers see whole records only."""

    def __init__(
        self,
        folder: Path,
        *,
        max_incidents: int = MAX_INCIDENTS,
        max_total_bytes: int = MAX_TOTAL_BYTES,
    ) -> None:
        self.folder = folder
        self._max_incidents = max_incidents
        self._max_total_bytes = max_total_bytes

    def path(self, incident_id: str, name: str = "") -> Path:
        """Of an incident's folder, or of a file in it. Raises `UnknownIncidentError` for what is no
        id: an id may come from a caller."""
        if not _ID.fullmatch(incident_id):
            raise UnknownIncidentError(f"{incident_id[:80]!r} is not an incident's id")
        folder = self.folder / incident_id
        return folder / name if name else folder

    def write(self, incident_id: str, record: bytes) -> None:
        """Put the record in place, whole. Raises `OSError`."""
        self.write_file(incident_id, RECORD, record)

    def write_file(self, incident_id: str, name: str, data: bytes) -> None:
        """Put a file into an incident's folder, whole or not at all. Raises `OSError`."""
        path = self.path(incident_id, name)
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        partial = path.with_name(f".{name}.part")
        fd = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with os.fdopen(fd, "wb") as file:
            file.write(data)
        partial.replace(path)

    def ids(self) -> list[str]:
        """Oldest first. Raises `OSError` for a folder that is there and cannot be read."""
        try:
            names = [entry.name for entry in os.scandir(self.folder) if entry.is_dir()]
        except FileNotFoundError:
            return []
        return sorted(name for name in names if _ID.fullmatch(name))

    def read(self, incident_id: str) -> Incident:
        """Raises `UnknownIncidentError`, and `ValueError` for a record that cannot be understood."""
        return decode_incident(self._record(incident_id))

    def find(self, word: str) -> str:
        """The id that `word` is, begins or ends (the short part will do). Raises
        `UnknownIncidentError`, and `OSError` as `ids` does."""
        ids = self.ids()
        if word in ids:
            return word
        found = [name for name in ids if word and (name.startswith(word) or name.endswith(word))]
        if len(found) == 1:
            return found[0]
        what = "no incident is" if not found else f"{len(found)} incidents are"
        raise UnknownIncidentError(f"{what} named {word[:80]!r}")

    def summaries(self, most: int | None = None) -> list[IncidentSummary]:
        """Newest first, at most `most`. Records that cannot be read are passed over. Raises `OSError`
        as `ids` does."""
        found: list[IncidentSummary] = []
        for incident_id in reversed(self.ids()):
            if most is not None and len(found) >= most:
                break
            try:
                found.append(msgspec.json.decode(self._record(incident_id), type=IncidentSummary))
            except (UnknownIncidentError, msgspec.DecodeError):
                continue
        return found

    def prune(self, keep: str | None = None) -> list[str]:
        """Remove the oldest until the bounds hold, but never `keep`: what was removed."""
        sizes = {name: _size(self.folder / name) for name in self.ids()}
        total, count = sum(sizes.values()), len(sizes)
        removed: list[str] = []
        for name, size in sizes.items():
            if count <= self._max_incidents and total <= self._max_total_bytes:
                break
            if name == keep:
                continue
            shutil.rmtree(self.folder / name, ignore_errors=True)
            removed.append(name)
            total, count = total - size, count - 1
        return removed

    def _record(self, incident_id: str) -> bytes:
        try:
            with self.path(incident_id, RECORD).open("rb") as file:
                return file.read(_RECORD_BYTES)
        except OSError as error:
            raise UnknownIncidentError(
                f"the record of {incident_id} cannot be read: {error.strerror}"
            ) from error


def _size(folder: Path) -> int:
    return sum(_file_sizes(folder))


def _file_sizes(folder: Path) -> Iterator[int]:
    try:
        for entry in os.scandir(folder):
            yield entry.stat(follow_symlinks=False).st_size
    except OSError:  # another server prunes at the same moment
        return
