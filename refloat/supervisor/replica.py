"""A READY worker as dispatch sees it, and the account of what it owes."""

from dataclasses import dataclass

from refloat.supervisor.child import Child
from refloat.wire.messages import Add, CacheFacts, Capabilities, Refused, Step, ToWorker

#: Of a packed token id.
_ID_BYTES = 4


@dataclass(slots=True)
class Share:
    """One generation's part of what a worker does, in token counts."""

    generation: int
    prompt_tokens: int
    emitted_tokens: int
    """Before this attempt and in it, as far as they have come."""
    compile_s: float = 0.0
    """What its grammar will take in the step that begins it; 0 once that is over."""


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
        self.is_suspect = False
        """It gets nothing new for now."""
        self._owed: dict[tuple[int, int], Share] = {}

    @property
    def shares(self) -> tuple[Share, ...]:
        """What it owes, in token counts."""
        return tuple(self._owed.values())

    @property
    def owes(self) -> bool:
        """Whether an `Add` is neither ended nor refused."""
        return bool(self._owed)

    def compile_s(self, generations: tuple[int, ...]) -> float:
        """Seconds of compiling that a batch brings with it."""
        batch = frozenset(generations)
        return sum(share.compile_s for share in self._owed.values() if share.generation in batch)

    def send(self, message: ToWorker) -> None:
        """Never blocks. Raises `FrameError` for a message too long to be accepted."""
        if self.is_lost:
            return
        if isinstance(message, Add):
            prompt_tokens = len(message.tokens) // _ID_BYTES - message.offset
            guide = message.params.guide
            compile_s = 0.0 if guide is None else guide.compile_s
            share = Share(message.generation, prompt_tokens, message.offset, compile_s)
            self._owed[message.generation, message.attempt] = share
        self._child.send(message)

    def stepped(self, step: Step) -> None:
        """The worker has brought a step; called before anybody else sees it."""
        for output in step.outputs:
            key = (output.generation, output.attempt)
            if output.ids:
                self.has_progressed = True
                if (share := self._owed.get(key)) is not None:
                    share.emitted_tokens = output.offset + len(output.ids)
                    share.compile_s = 0.0
            if output.ended is not None:
                self._owed.pop(key, None)

    def refused(self, refused: Refused) -> None:
        """The worker has refused an `Add`."""
        self._owed.pop((refused.generation, refused.attempt), None)
