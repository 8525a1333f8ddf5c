"""Which of a model's workers serves, and which are spares: roles, explicit, apart from processes.

Each slot's program speaks to a `Seat` as if it were dispatch. Only the seat that serves is heard; when
its worker is lost, dispatch is told first, and then the spare that is ready takes over. Between the two
nobody serves, and everything that is published meanwhile says so.
"""

from collections.abc import Callable
from typing import Protocol

from refloat.supervisor.fleet import (
    ModelSnapshot,
    Rebuild,
    Replica,
    ReplicaListener,
    ReplicaLoss,
)
from refloat.supervisor.lifecycle import LIVE, WorkerState
from refloat.wire.messages import Refused, Step

#: How near a slot is to serving, the nearest first.
_NEAREST = (
    WorkerState.READY,
    WorkerState.SUSPECT,
    WorkerState.PROBING,
    WorkerState.LOADING,
    WorkerState.SPAWNING,
    WorkerState.EXITED,
    WorkerState.BACKOFF,
    WorkerState.DRAINING,
    WorkerState.FAILED,
    WorkerState.STUCK,
)

_ON_THE_WAY = (WorkerState.LOADING, WorkerState.PROBING)
_NO_LONGER_WANTED = "it was loaded with settings that are no longer wanted"


class Occupant(Protocol):
    """The slot that a seat belongs to."""

    @property
    def is_started(self) -> bool:
        """The first slot is at once, a spare when there is somebody to be a spare for."""
        ...

    @property
    def state(self) -> WorkerState: ...

    @property
    def rung(self) -> int:
        """Of the ladder, on which its worker was or will be loaded."""
        ...

    def has_exited(self) -> bool:
        """Whether its process is known to have ended, handled or not."""
        ...

    def go_on(self) -> None:
        """Load now, if it waited to be wanted."""
        ...

    def retire(self, reason: str) -> None:
        """Be replaced: no worker like this is wanted."""
        ...


class Lineup:
    """The seats of one model. `publish` makes the fleet's snapshot anew."""

    def __init__(
        self,
        listener: ReplicaListener,
        publish: Callable[[], None],
        *,
        is_primed: bool = False,
        wanted_rung: Callable[[], int] = lambda: 0,
    ) -> None:
        """`is_primed`: spares wait without a model. `wanted_rung`: how safe a worker has to be."""
        self._listener = listener
        self._publish = publish
        self._is_primed = is_primed
        self._wanted_rung = wanted_rung
        self._chosen: Seat | None = None
        self.seats: list[Seat] = []
        self.serving: Seat | None = None
        self.is_closing = False
        """Nobody takes over any more."""

    def add_seat(self) -> "Seat":
        """One more slot."""
        seat = Seat(self, self._listener)
        self.seats.append(seat)
        return seat

    @property
    def leading(self) -> "Seat":
        """The seat that serves; while none does, the one that is nearest to it."""
        if self.serving is not None:
            return self.serving
        started = [seat for seat in self.seats if seat.occupant.is_started]
        return min(started or self.seats[:1], key=lambda seat: _NEAREST.index(seat.state))

    @property
    def state(self) -> WorkerState:
        """The state of the leading seat; never READY while none serves."""
        state = self.leading.state
        is_ready = state in (WorkerState.READY, WorkerState.SUSPECT)
        return WorkerState.PROBING if self.serving is None and is_ready else state

    def is_wanted(self, seat: "Seat") -> bool:
        """Whether a seat's worker shall load: any, unless spares wait primed; then one at a time."""
        if not self._is_primed:
            return True
        chosen = self._chosen
        if chosen is None or (chosen is not seat and chosen.state not in LIVE):
            self._chosen = chosen = seat
        return chosen is seat

    def serve(self, seat: "Seat") -> None:
        """Let this seat's worker serve, if none does; it is published before anybody sends it work."""
        replica = seat.replica
        if replica is None or self.serving is not None or self.is_closing:
            return
        if seat.occupant.rung < self._wanted_rung():
            seat.occupant.retire(_NO_LONGER_WANTED)
            return
        self.serving = self._chosen = seat
        self._publish()
        self._listener.replica_ready(replica)

    def withdraw(self, seat: "Seat") -> None:
        """The worker that served is lost, and dispatch was told."""
        if self.serving is seat:
            self.serving = None
        if self._chosen is seat:
            self._chosen = None

    def take_over(self) -> None:
        """After a loss: let a spare serve, or let one load. Does nothing while somebody serves."""
        if self.is_closing or self.serving is not None:
            return
        for seat in self.seats:
            if seat.can_serve():
                self.serve(seat)
            elif seat.state in _ON_THE_WAY and seat.occupant.rung < self._wanted_rung():
                seat.occupant.retire(_NO_LONGER_WANTED)
        for seat in self.seats:
            seat.occupant.go_on()


class Seat:
    """One slot's place, and the listener of its program."""

    def __init__(self, lineup: Lineup, listener: ReplicaListener) -> None:
        self._lineup = lineup
        self._listener = listener
        self.occupant: Occupant
        """Set once, before the slot is started."""
        self.replica: Replica | None = None
        """Of a worker that is ready."""

    @property
    def state(self) -> WorkerState:
        """Of the slot."""
        return self.occupant.state

    def can_serve(self) -> bool:
        """Whether its worker is ready and, as far as is known, alive."""
        is_ready = self.replica is not None and self.state is WorkerState.READY
        return is_ready and not self.occupant.has_exited()

    # --- what a program tells ----------------------------------------------------------------------

    def replica_ready(self, replica: Replica) -> None:
        """Its worker is ready: it serves, or waits as a spare."""
        self.replica = replica
        self._lineup.serve(self)

    def replica_step(self, worker_id: int, step: Step) -> None:
        """Of the serving worker; a spare has nothing to step."""
        if self._lineup.serving is self:
            self._listener.replica_step(worker_id, step)

    def replica_refused(self, worker_id: int, refused: Refused) -> None:
        """Of the serving worker."""
        if self._lineup.serving is self:
            self._listener.replica_refused(worker_id, refused)

    def replica_suspect(self, worker_id: int, *, suspect: bool) -> None:
        """Of the serving worker."""
        if self._lineup.serving is self:
            self._listener.replica_suspect(worker_id, suspect=suspect)

    def model_changed(self, snapshot: ModelSnapshot) -> None:
        """Of the model's own supervisor, not of a slot."""
        self._listener.model_changed(snapshot)

    def replica_lost(self, worker_id: int, loss: ReplicaLoss) -> Rebuild:
        """Its worker is lost. Nobody is told of a spare's loss. Who serves next is asked later, by
        `Lineup.take_over`, when what the loss means for the next worker has been taken in."""
        self.replica = None
        if self._lineup.serving is not self:
            return Rebuild.SAME
        rebuild = self._listener.replica_lost(worker_id, loss)
        self._lineup.withdraw(self)
        return rebuild
