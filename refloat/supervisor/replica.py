"""A READY worker as dispatch sees it, and the account of what it owes."""

from refloat.supervisor.child import Child
from refloat.wire.messages import Add, CacheFacts, Capabilities, Refused, Step, ToWorker


class WorkerReplica:
    """Implements `fleet.Replica`. Once lost it ignores whatever is sent."""

    def __init__(
        self,
        child: Child,
        *,
        cache: CacheFacts | None,
        capabilities: Capabilities,
        max_num_seqs: int,
    ) -> None:
        self._child = child
        self.worker_id = child.worker_id
        self.cache = cache
        self.capabilities = capabilities
        self.max_num_seqs = max_num_seqs
        self.is_lost = False
        self.has_progressed = False
        """It has brought a token."""
        self._owed: set[tuple[int, int]] = set()

    @property
    def owes(self) -> bool:
        """Whether an `Add` is neither ended nor refused."""
        return bool(self._owed)

    def send(self, message: ToWorker) -> None:
        """Never blocks. Raises `FrameError` for a message too long to be accepted."""
        if self.is_lost:
            return
        if isinstance(message, Add):
            self._owed.add((message.generation, message.attempt))
        self._child.send(message)

    def stepped(self, step: Step) -> None:
        """The worker has brought a step; called before anybody else sees it."""
        for output in step.outputs:
            if output.ended is not None:
                self._owed.discard((output.generation, output.attempt))
            if output.ids:
                self.has_progressed = True

    def refused(self, refused: Refused) -> None:
        """The worker has refused an `Add`."""
        self._owed.discard((refused.generation, refused.attempt))
