"""Takes what a child leaves of itself: threads before it is killed, last words once it is gone."""

import re
from functools import partial

from refloat.observe.aside import aside
from refloat.observe.incident_record import Incident
from refloat.observe.process_evidence import ProcessEvidence, read_process
from refloat.supervisor.child import Child
from refloat.supervisor.exits import Fault
from refloat.supervisor.incident_sources import IncidentSources
from refloat.supervisor.incident_writer import IncidentWriter
from refloat.supervisor.outage import Outage
from refloat.wire.faults import FaultKind
from refloat.wire.progress import Progress

#: From the first line that `faulthandler` writes of a thread to the end.
_STACKS = re.compile(r"^(?:Current thread|Thread) 0x.*", re.MULTILINE | re.DOTALL)
#: For all threads of a process that does not run away.
_HUNG_S = 0.2
_ASIDE_S = 2.0


class EvidenceTaker:
    """Reads on the event loop what takes microseconds; writing is the writer's."""

    def __init__(self, sources: IncidentSources, writer: IncidentWriter) -> None:
        self._proc = sources.proc_root
        self._writer = writer

    def threads(self, outage: Outage, child: Child, fault: Fault) -> None:
        """Where each thread stands, on the way to SIGKILL. A hung child has a moment before that, so
        its threads are read aside; with any other the loop waits for some milliseconds."""
        name = "stacks.txt" if outage.is_first else "stacks-last.txt"
        if child.process.has_exited():
            outage.record.miss(name, "the process had ended already")
            return
        if fault.kind is FaultKind.STALL:
            self._writer.do(
                outage.record, name, partial(self._hung_threads, outage, child.pid, name)
            )
        else:
            self._keep(outage, name, read_process(child.pid, proc=self._proc))

    def stuck_threads(self, outage: Outage) -> None:
        """Where in the kernel it hangs: what an unkillable process is all about."""
        losses = outage.record.losses
        if losses and losses[-1].pid is not None:
            name = "stacks-stuck.txt"
            self._writer.do(
                outage.record, name, partial(self._hung_threads, outage, losses[-1].pid, name)
            )

    def last_words(self, outage: Outage, child: Child, fault: Fault) -> None:
        """Stderr, and the Python stacks that a hung child was asked for."""
        text = child.process.last_stderr()
        if outage.is_first:
            outage.stderr = text
        name = "stderr.txt" if outage.is_first else "stderr-last.txt"
        self._writer.file(outage.record, name, text)
        if fault.kind is not FaultKind.STALL:
            return
        stacks = _STACKS.search(text)
        if stacks is None:
            outage.record.miss("python stacks", "it wrote none before it was killed")
        else:
            self._writer.file(outage.record, "python-stacks.txt", stacks[0])

    async def _hung_threads(self, outage: Outage, pid: int, name: str) -> None:
        found = await aside(lambda: read_process(pid, proc=self._proc, most_s=_HUNG_S), _ASIDE_S)
        self._keep(outage, name, found)
        self._writer.save(outage.record)

    def _keep(self, outage: Outage, name: str, found: ProcessEvidence) -> None:
        for what, why in found.missing:
            outage.record.miss(f"/proc {what}", why)
        self._writer.file(outage.record, name, found.text)


def progress_of(child: Child | None, record: Incident) -> Progress | None:
    """The page, if it can be read."""
    try:
        progress = None if child is None else child.progress()
    except ValueError:
        record.miss("progress page", "it was scribbled on")
        return None
    if progress is None:
        record.miss("progress page", "nothing is written there")
    return progress
