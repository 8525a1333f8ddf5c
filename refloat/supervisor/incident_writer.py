"""Takes incidents to disk, one job after the other, beside the event loop.

A job that fails or takes too long is put on record in its incident and logged; nothing waits for it
but the gateway's end, and that for a bounded time.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from functools import partial

from refloat.observe.aside import aside
from refloat.observe.coredump import copy_coredump
from refloat.observe.incident_record import Incident, encode_incident
from refloat.observe.log import get_logger
from refloat.supervisor.incident_sources import IncidentSources

_log = get_logger(__name__)

Job = Callable[[], Awaitable[None]]
COREDUMP = "coredump.bin"
#: Devices without a driver that leaves coredumps.
_DUMPLESS = frozenset({"CPU", "NPU"})


class IncidentWriter:
    """Jobs are begun in the order in which they are given. One for a slot."""

    def __init__(self, sources: IncidentSources) -> None:
        self._sources = sources
        self._jobs: deque[tuple[Incident, str, Job]] = deque()
        self._unsaved: dict[str, Incident] = {}
        self._task: asyncio.Task[None] | None = None

    def save(self, incident: Incident) -> None:
        """Write the record as it stands when its turn comes."""
        if incident.id not in self._unsaved:
            self._unsaved[incident.id] = incident
            self.do(incident, "incident.json", partial(self._save, incident))

    def file(self, incident: Incident, name: str, text: str) -> None:
        """Write a text beside the record."""
        self.do(incident, name, partial(self._file, incident, name, text))

    def coredump(self, incident: Incident) -> None:
        """Look for a new device coredump, and copy it."""
        if incident.device.name.upper() not in _DUMPLESS and COREDUMP not in incident.files:
            self.do(incident, "device coredump", partial(self._coredump, incident))

    def prune(self, incident: Incident) -> None:
        """Keep the folder within its bounds."""
        self.do(incident, "old incidents", partial(self._prune, incident))

    def do(self, incident: Incident, what: str, job: Job) -> None:
        """Any other job."""
        self._jobs.append((incident, what, job))
        if self._task is None or self._task.done():
            task = asyncio.get_running_loop().create_task(self._work(), name="incident-writer")
            self._task = task

    async def finish(self, deadline_s: float) -> None:
        """Until everything is written, or the deadline is over."""
        task = self._task
        if task is None:
            return
        _, late = await asyncio.wait({task}, timeout=deadline_s)
        if late:
            _log.warning("incidents_not_written", jobs=len(self._jobs) + 1)
            task.cancel()
            await asyncio.wait({task}, timeout=deadline_s)

    async def _work(self) -> None:
        while self._jobs:
            incident, what, job = self._jobs.popleft()
            try:
                await job()
            except TimeoutError:
                self._failed(incident, what, "it took too long")
            except Exception as error:  # noqa: BLE001  (evidence must never cost a recovery)
                self._failed(incident, what, str(error) or type(error).__name__)

    def _failed(self, incident: Incident, what: str, why: str) -> None:
        incident.miss(what, why)
        _log.warning("incident_evidence_missing", incident_id=incident.id, what=what, reason=why)

    async def _save(self, incident: Incident) -> None:
        del self._unsaved[incident.id]
        data = encode_incident(incident)
        store = self._sources.store
        await aside(lambda: store.write(incident.id, data), self._sources.file_deadline_s)

    async def _file(self, incident: Incident, name: str, text: str) -> None:
        data = text.encode("utf-8", errors="replace")
        store = self._sources.store
        await aside(
            lambda: store.write_file(incident.id, name, data), self._sources.file_deadline_s
        )
        incident.keep(name)

    async def _coredump(self, incident: Incident) -> None:
        address = None if incident.device.is_guess else incident.device.address
        sources = self._sources
        dump = await aside(lambda: sources.coredumps.take_new(address), sources.coredump_deadline_s)
        if dump is None:
            return
        target = sources.store.path(incident.id, COREDUMP)
        copied = await aside(lambda: copy_coredump(dump, target), sources.coredump_deadline_s)
        if copied.size_bytes:
            incident.keep(COREDUMP)
        if copied.trouble is not None:
            self._failed(incident, "device coredump", copied.trouble)
        self.save(incident)

    async def _prune(self, incident: Incident) -> None:
        store = self._sources.store
        removed = await aside(lambda: store.prune(incident.id), self._sources.file_deadline_s)
        if removed:
            _log.info("incidents_removed", count=len(removed), oldest=removed[0])
