"""What a slot needs from its two sides: the world (`Desk`) and the program that it runs."""

from typing import Any, Protocol

from refloat.supervisor.child import Child
from refloat.supervisor.exits import Fault
from refloat.supervisor.history import Loss
from refloat.supervisor.inbox import Alarm, Item
from refloat.supervisor.lifecycle import Effect, Table, WorkerEvent, WorkerState


class Desk(Protocol):
    """Time, chance and processes."""

    def now_s(self) -> float: ...

    def chance(self) -> float:
        """A random number in [0, 1)."""
        ...

    def spawn(self) -> Child:
        """Start the program. Raises `OSError`."""
        ...

    def set_alarm(self, alarm: Alarm, delay_s: float) -> None:
        """Have `alarm` posted after `delay_s`; an earlier one of the same name is dropped."""
        ...

    def drop_alarm(self, alarm: Alarm) -> None: ...

    def post(self, item: Item) -> None:
        """Put an item at the end of the slot's inbox."""
        ...


class Program(Protocol):
    """What differs between the kinds of children."""

    @property
    def name(self) -> str:
        """`worker` or `prep`."""
        ...

    @property
    def table(self) -> Table: ...

    def veto(self) -> Fault | None:
        """Why no child may be started now; asked before each start."""
        ...

    def receive(self, state: WorkerState, message: Any) -> WorkerEvent | Fault | None:
        """Judge a control message. `None`: nothing follows from it."""
        ...

    def perform(self, effect: Effect, child: Child, fault: Fault | None) -> None:
        """Carry out an effect that is the program's: `SEND_*`, `ANNOUNCE_*`, `ASK_TO_LEAVE`."""
        ...

    def look(self, state: WorkerState, child: Child) -> WorkerEvent | Fault | None:
        """Judge a child's progress; called at every tick."""
        ...

    def explained(self, fault: Fault) -> None:
        """Why the child is gone, as it is known best now that it is reaped."""
        ...

    def lost(self, fault: Fault) -> Loss:
        """A child is gone for good, for the reason that is now known best."""
        ...

    def changed(self) -> None:
        """State, cause or reason of the slot changed: publish it."""
        ...
