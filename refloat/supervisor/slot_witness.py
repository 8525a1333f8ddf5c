"""What a slot tells of its life to somebody who writes it down (`incident_log.py`), as a contract.

A witness returns at once and decides nothing, but for one thing: it may know better why a child ended.
"""

from typing import Protocol

from refloat.supervisor.child import Child
from refloat.supervisor.exits import Fault
from refloat.supervisor.lifecycle import Effect, WorkerState


class SlotWitness(Protocol):
    """Called on the event loop, in the order in which things happen."""

    def condemned(self, child: Child | None, fault: Fault, state: WorkerState) -> None:
        """A fault was detected in `state`; nothing was done about it yet. `None`: there was no child,
        it could not even be started."""
        ...

    def moved(self, before: WorkerState, state: WorkerState) -> None:
        """The slot is in another state; its effects come now."""
        ...

    def performed(self, effect: Effect, child: Child | None) -> None:
        """An effect was carried out, or begun."""
        ...

    def reaped(self, child: Child | None, fault: Fault) -> None:
        """The process is gone, everything that it wrote is there, and this was the reason."""
        ...

    def explain(self, child: Child, fault: Fault) -> Fault:
        """A process ended, and this is what its exit code says: what else is known of it?"""
        ...


class Unwitnessed:
    """Nobody looks."""

    def condemned(self, child: Child | None, fault: Fault, state: WorkerState) -> None:
        """Nothing."""

    def moved(self, before: WorkerState, state: WorkerState) -> None:
        """Nothing."""

    def performed(self, effect: Effect, child: Child | None) -> None:
        """Nothing."""

    def reaped(self, child: Child | None, fault: Fault) -> None:
        """Nothing."""

    def explain(self, child: Child, fault: Fault) -> Fault:
        """Nothing beyond that."""
        return fault
