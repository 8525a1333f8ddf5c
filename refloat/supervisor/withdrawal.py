"""The end of a replica as its generations are told of it: once, with the batch of its last step and
with whether anybody is to be suspected.

The end of a link says neither why, nor whether a signal came from outside; the exit code does, some
milliseconds later. Until then the replica is only called suspect, so that it gets nothing new.
"""

from refloat.supervisor.child import Child
from refloat.supervisor.exits import Fault
from refloat.supervisor.fleet import Rebuild, ReplicaListener, ReplicaLoss
from refloat.supervisor.replica import WorkerReplica
from refloat.supervisor.rung_keeper import RungKeeper
from refloat.wire.faults import FaultKind
from refloat.wire.progress import Phase

#: In these the page names whom the step, or the adding, under way is for; a worker that has said its
#: last words leaves the names as they were.
_NAMING = frozenset({Phase.ADDING, Phase.STEPPING, Phase.SENDING, Phase.LEAVING})


class Withdrawal:
    """For one slot: between a replica's last moment and the word about it."""

    def __init__(self, listener: ReplicaListener, rungs: RungKeeper | None) -> None:
        self._listener = listener
        self._rungs = rungs
        self._replica: WorkerReplica | None = None
        """Lost, and nobody was told yet."""
        self._batch: tuple[int, ...] = ()
        self._was_stopped = False
        self._rebuild = Rebuild.SAME

    def begin(self, replica: WorkerReplica, child: Child, *, is_explained: bool) -> None:
        """The replica is lost; its process is not touched yet. `is_explained`: the word about it
        follows at once."""
        replica.is_lost = True
        self._replica = replica
        self._batch = batch_of(child)
        self._was_stopped = child.process.stat().is_stopped
        if not is_explained and not replica.is_suspect:
            self._listener.replica_suspect(replica.worker_id, suspect=True)

    def end(self, fault: Fault, incident_id: str | None) -> bool:
        """Why, as it is known best: tell the listener. False: there was nothing left to be told."""
        replica, self._replica = self._replica, None
        if replica is None:
            return False
        is_external = (
            fault.kind in (FaultKind.OPERATOR, FaultKind.MEMORY_LIMIT)
            or (fault.kind is FaultKind.DEATH and fault.is_external)
            or (fault.kind is FaultKind.STALL and self._was_stopped)
        )
        loss = ReplicaLoss(
            fault.kind,
            fault.reason,
            batch=self._batch,
            is_external=is_external,
            incident_id=incident_id,
        )
        self._rebuild = self._listener.replica_lost(replica.worker_id, loss)
        if self._rungs is not None:
            self._rungs.lost(
                self._rebuild, had_progress=replica.has_progressed, is_external=is_external
            )
        return True

    def take_rebuild(self) -> Rebuild:
        """What the listener said, once."""
        rebuild, self._rebuild = self._rebuild, Rebuild.SAME
        return rebuild


def batch_of(child: Child) -> tuple[int, ...]:
    """Whom a child's page names for what it is doing; nobody, if it does nothing for anybody."""
    try:
        progress = child.progress()
    except ValueError:  # scribbled on
        return ()
    return progress.generations if progress is not None and progress.phase in _NAMING else ()
