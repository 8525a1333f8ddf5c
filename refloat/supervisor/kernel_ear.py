"""Hears what the kernel says of the child in one slot, and acts on it.

A reset that names the worker condemns it at once, whatever it may still say itself; the OOM killer's
line explains a SIGKILL that nobody here sent.
"""

import signal
from collections.abc import Callable
from functools import partial

from refloat.observe.kernel_lines import KernelEvent, KernelEventKind, Subject, concerns
from refloat.observe.kernel_log import Following, KernelLog
from refloat.supervisor.child import Child
from refloat.supervisor.exits import Fault
from refloat.supervisor.inbox import Condemned
from refloat.wire.faults import FaultKind

_SAYS = {
    KernelEventKind.GPU_RESET: "the kernel reset the GPU under it",
    KernelEventKind.JOB_TIMEOUT: "the kernel gave up a GPU job of it",
}


class KernelEar:
    """For one slot. `condemn` is called on the event loop."""

    def __init__(self, kernel: KernelLog, address: str | None) -> None:
        self._kernel = kernel
        self._address = address
        self._following: Following | None = None
        self.condemn: Callable[[Condemned], None] | None = None

    @property
    def trouble(self) -> str | None:
        """Why nothing is heard; `None`: it is."""
        return self._kernel.trouble

    def hear(self, child: Child) -> None:
        """This child is the one that counts now."""
        self.deafen()
        subject = self._subject(child.pid)
        self._following = self._kernel.follow(subject, partial(self._heard, child.worker_id))

    def deafen(self) -> None:
        """No child is there."""
        if self._following is not None:
            self._kernel.unfollow(self._following)
            self._following = None

    def listen(self) -> None:
        """Take in what has been said so far."""
        self._kernel.drain()

    def since(self, at_s: float) -> list[KernelEvent]:
        """What was heard at or after `at_s`."""
        return self._kernel.since(at_s)

    def names(self, event: KernelEvent, pid: int | None) -> bool:
        """Whether an event speaks of this process."""
        if pid is None:
            return False
        return concerns(event, self._subject(pid), knows_pids=self._kernel.knows_pids)

    def explain(self, pid: int, exit_status: int | None, fault: Fault, since_s: float) -> Fault:
        """What a death was, if the OOM killer says so."""
        if fault.kind is not FaultKind.DEATH or exit_status != -signal.SIGKILL:
            return fault
        self.listen()
        said = self._kernel.about(self._subject(pid), since_s)
        if any(event.kind is KernelEventKind.OOM_KILL for event in said):
            reason = "the kernel ended the worker process because memory ran out"
            return Fault(FaultKind.OUT_OF_MEMORY, reason)
        return fault

    def _subject(self, pid: int) -> Subject:
        return Subject(pid, self._address)

    def _heard(self, worker_id: int, event: KernelEvent) -> None:
        if not event.is_fatal or self.condemn is None:
            return
        where = f" ({event.driver} {event.address or ''}".rstrip() + ")" if event.driver else ""
        what = _SAYS.get(event.kind, f"the GPU's driver reports Xid {event.xid} for it")
        self.condemn(Condemned(Fault(FaultKind.CONTEXT_FATAL, f"{what}{where}"), worker_id))
