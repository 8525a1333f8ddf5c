"""Gateway and worker as they are, between them links that may lag, behind them the trapped engine."""

import asyncio
from collections import deque
from typing import cast

from refloat.generation.limits import Limits
from refloat.generation.session import Session
from refloat.supervisor.fleet import Availability
from refloat.wire.messages import (
    ENDED_PREEMPTED,
    CacheFacts,
    Capabilities,
    FromWorker,
    Refused,
    Shutdown,
    Step,
    ToWorker,
    WorkerFault,
)
from refloat.wire.pipe import Pipe
from refloat.wire.progress import ProgressWriter
from refloat.worker.loop import WorkerLoop
from tests.unit.generation.conftest import Stage
from tests.unit.generation.trapped_engine import TrappedEngine


class _Page:
    def write(self, *_: object, **__: object) -> None: ...


class _Link:
    """The worker's end: it is told what has arrived, and leaves its loop after each frame."""

    def __init__(self, frames: "deque[Step | Refused]") -> None:
        self.arrived: deque[ToWorker] = deque()
        self._frames = frames
        self._has_sent = False

    def turn(self) -> None:
        self._has_sent = False

    def recv(self, timeout: float | None = None) -> ToWorker | None:
        if self._has_sent:
            return Shutdown()
        if self.arrived:
            return self.arrived.popleft()
        return Shutdown() if timeout is None else None

    def send(self, message: FromWorker) -> None:
        assert not isinstance(message, WorkerFault), message.message
        assert isinstance(message, Step | Refused)
        self._frames.append(message)
        self._has_sent = isinstance(message, Step)


class LaggingReplica:
    """A ready worker as dispatch sees it. Commands and frames stand still unless told to move."""

    def __init__(self, worker_id: int, engine: TrappedEngine, max_num_seqs: int) -> None:
        self.worker_id = worker_id
        self.engine = engine
        self.cache: CacheFacts | None = engine.cache()
        self.capabilities: Capabilities = engine.capabilities
        self.max_num_seqs = max_num_seqs
        self.commands: deque[ToWorker] = deque()
        self.frames: deque[Step | Refused] = deque()
        self._link = _Link(self.frames)
        self._loop = WorkerLoop(
            cast("Pipe[ToWorker]", self._link),
            cast("ProgressWriter", _Page()),
            engine,
            max_batched_tokens=engine.max_batched,
        )

    def send(self, message: ToWorker) -> None:
        self.commands.append(message)

    @property
    def is_idle(self) -> bool:
        return not (self.commands or self.frames or self.engine.has_work())

    def work(self, deliver: int) -> None:
        """So many commands arrive; then the worker takes them and steps once."""
        for _ in range(min(deliver, len(self.commands))):
            self._link.arrived.append(self.commands.popleft())
        self._link.turn()
        self._loop.run()


class OverloadStage(Stage):
    """One model on one such worker."""

    def __init__(self, engine: TrappedEngine, *, limits: Limits, max_num_seqs: int) -> None:
        facts = engine.cache()
        super().__init__(
            limits=limits,
            blocks=facts.num_blocks,
            block_size=facts.block_size,
            max_num_seqs=max_num_seqs,
            capabilities=engine.capabilities,
            context_length=facts.num_blocks * facts.block_size,
        )
        self.runner = asyncio.Runner()
        self.engine = engine
        self.given_back = 0
        """Ends that the worker's own guard brought about."""
        self.worker = LaggingReplica(1, engine, max_num_seqs)
        self.publish(Availability.READY)
        self.dispatch.replica_ready(self.worker)

    def ask(self, prompt: list[int], **more: object) -> Session:
        """Raises `ProblemError`."""
        request = self.request(prompt, **more)  # pyright: ignore[reportArgumentType]
        session = self.runner.run(self.intake.submit(request))
        assert isinstance(session, Session)
        return session

    def hear(self, count: int) -> None:
        """So many frames reach the gateway."""
        frames = self.worker.frames
        for _ in range(min(count, len(frames))):
            frame = frames.popleft()
            if isinstance(frame, Step):
                words = [output.ended for output in frame.outputs]
                self.given_back += words.count(ENDED_PREEMPTED)
                self.dispatch.replica_step(1, frame)
            else:
                self.dispatch.replica_refused(1, frame)

    def turn(self, lag: int = 0) -> None:
        """The worker steps; the gateway hears all but the last `lag` frames, as long as there are more
        to come."""
        self.worker.work(len(self.worker.commands))
        lag = lag if self.engine.has_work() else 0
        self.hear(max(0, len(self.worker.frames) - lag))

    def see_everybody_through(self) -> None:
        """Fails if that takes suspiciously long."""
        for _ in range(20_000):
            if self.worker.is_idle and self.dispatch.idle:
                break
            self.turn()
        else:
            raise AssertionError("does not end: nobody gets on")
        assert self.engine.used == 0, "blocks have leaked"
