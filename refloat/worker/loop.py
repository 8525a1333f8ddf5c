"""The worker's loop: take commands, add and cancel, step, send one frame. Nothing clever lives here.

It ends with an exit code when the gateway is done with it. When the engine's state is lost it says so
in one frame and then touches nothing: a destructor on a dead device context may hang or abort.
"""

import gc
import time
from collections.abc import Sequence
from typing import NoReturn, assert_never

import msgspec

from refloat.engines.base import (
    PROBE_KEY,
    Engine,
    EngineFaultError,
    EngineRequest,
    RequestKey,
    RequestRefusedError,
)
from refloat.engines.engine_text import clean_message, is_out_of_memory
from refloat.engines.faulty import FaultyEngine
from refloat.wire.exit_codes import ChildExit
from refloat.wire.faults import FaultKind, is_context_fatal
from refloat.wire.frame import FrameError
from refloat.wire.messages import (
    ENDED_PREEMPTED,
    Add,
    Cancel,
    Configure,
    FaultSpent,
    Output,
    Prime,
    Probe,
    Probed,
    Refused,
    SamplingParams,
    Shutdown,
    Step,
    ToWorker,
    WorkerFault,
    unpack_ids,
)
from refloat.wire.pipe import EOF, EndOfLink, LinkClosedError, Pipe
from refloat.wire.progress import Phase, ProgressWriter
from refloat.worker.guard import AdmissionGuard


class ProtocolError(Exception):
    """The gateway sent what is not legal here."""


class WorkerLoop:
    """Drives one loaded engine for one gateway. Not reusable."""

    def __init__(
        self,
        pipe: Pipe[ToWorker],
        progress: ProgressWriter,
        engine: Engine,
        *,
        max_batched_tokens: int,
        prefix_caching: bool = True,
    ) -> None:
        self._pipe = pipe
        self._progress = progress
        self._engine = engine
        self._max_batched = max_batched_tokens
        self._prefix_caching = prefix_caching
        self._guard = self._new_guard()
        self._preempted: set[RequestKey] = set()
        self._returned: list[Output] = []
        """Ends of attempts for which there was no room, to be told with the next frame."""
        self._steps = 0
        self._phase = Phase.IDLE
        self._running: dict[RequestKey, None] = {}
        self._batch: list[int] = []
        self._named: Sequence[int] = ()
        """Whom the page names for the phase under way."""
        self._prefill = 0
        """Prompt tokens not yet stepped, as far as known (the engine may have them cached)."""

    def run(self) -> ChildExit:
        """Until the link ends, `Shutdown`, or a fault.

        Raises `FrameError` and `ProtocolError` for a gateway that cannot be trusted, and
        `LinkClosedError` when it is gone.
        """
        try:
            return self._run()
        except (FrameError, ProtocolError, LinkClosedError):
            raise
        except EngineFaultError as error:
            self._last_words(_fault_kind(error), str(error))
        except Exception as error:  # noqa: BLE001 - nothing after an unknown fault can be trusted
            text = f"{type(error).__name__}: {error}"
            self._last_words(_fault_kind_of_text(text), clean_message(text))

    def _run(self) -> ChildExit:
        engine, pipe = self._engine, self._pipe
        while True:
            if not engine.has_work():
                self._enter(Phase.IDLE)
                command = pipe.recv()
            else:
                command = pipe.recv(0)
            while command is not None:
                if isinstance(command, (EndOfLink, Shutdown)):
                    return ChildExit.ASKED
                self._obey(command)
                command = pipe.recv(0)
            if engine.has_work():
                self._step()
            elif self._returned:
                self._send_step([], -1)

    def _obey(self, command: Prime | Configure | Probe | Add | Cancel | FaultSpent) -> None:
        match command:
            case Add():
                self._add(command)
            case Cancel(generation=generation, attempt=attempt):
                key = RequestKey(generation, attempt)
                self._guard.leave(key)
                self._engine.cancel(key)
            case Probe():
                self._probe(command)
            case FaultSpent(index=index):
                if isinstance(self._engine, FaultyEngine):
                    self._engine.spent(index)
            case Prime() | Configure():
                raise ProtocolError(f"{type(command).__name__.lower()} after configure")
            case _:
                assert_never(command)

    def _add(self, add: Add) -> None:
        request = _request(add)
        problem = self._guard.problem(request)
        if problem is None and not self._guard.take(request):
            generation, attempt = request.key
            self._returned.append(
                Output(generation, attempt, request.offset, (), None, ENDED_PREEMPTED)
            )
            return
        if problem is None:
            self._enter(Phase.ADDING, tokens=len(request.tokens), named=[add.generation])
            try:
                self._engine.add(request)
            except RequestRefusedError as error:
                self._guard.release(request.key)
                problem = error.problem
        if problem is not None:
            self._pipe.send(Refused(add.generation, add.attempt, problem))
            return
        self._prefill += len(request.tokens)
        self._running[request.key] = None
        self._batch = [key.generation for key in self._running]

    def _step(self) -> None:
        for key in self._guard.victims():
            self._preempted.add(key)
            self._engine.cancel(key)
        self._steps += 1
        decoding = len(self._batch)
        chunk = min(self._prefill, max(0, self._max_batched - decoding))
        self._prefill -= chunk
        self._enter(Phase.STEPPING, tokens=chunk + decoding, named=self._batch)
        result = self._engine.step()
        self._enter(Phase.SENDING, named=self._batch)
        outputs = result.outputs
        self._guard.stepped(outputs, result.used_blocks)
        ended = [output for output in outputs if output.ended is not None]
        if ended:
            self._forget(ended)
            if self._preempted:
                outputs = [self._told(output) for output in outputs]
        self._send_step(outputs, result.used_blocks)

    def _forget(self, ended: list[Output]) -> None:
        for output in ended:
            self._running.pop(RequestKey(output.generation, output.attempt), None)
        self._batch = [key.generation for key in self._running]
        if not self._batch:
            self._prefill = 0

    def _told(self, output: Output) -> Output:
        """An end that the guard brought about is told as what it is."""
        key = RequestKey(output.generation, output.attempt)
        if output.ended is None or key not in self._preempted:
            return output
        self._preempted.discard(key)
        return msgspec.structs.replace(output, ended=ENDED_PREEMPTED)

    def _send_step(self, outputs: list[Output], used_blocks: int) -> None:
        returned, self._returned = self._returned, []
        self._pipe.send(Step(self._steps, (*outputs, *returned), used_blocks))

    def _new_guard(self) -> AdmissionGuard:
        return AdmissionGuard(
            self._engine.capabilities,
            self._engine.cache(),
            is_sharing=self._prefix_caching,
            step_tokens=self._max_batched,
        )

    def _probe(self, probe: Probe) -> None:
        """Greedy, alone, and not counted: its ids are evidence and never part of an answer."""
        if self._engine.has_work():
            raise ProtocolError("a probe while requests run")
        began = time.monotonic()
        params = SamplingParams(max_tokens=probe.count, temperature=0.0)
        tokens = unpack_ids(probe.prompt)
        self._enter(Phase.PROBING, tokens=len(tokens))
        try:
            self._engine.add(EngineRequest(PROBE_KEY, tokens, 0, params))
        except RequestRefusedError as error:
            raise EngineFaultError(
                f"the probe was refused: {error}", context_fatal=False
            ) from error
        ids: list[int] = []
        while self._engine.has_work():
            self._steps += 1
            self._enter(Phase.PROBING, tokens=max(1, len(tokens) - self._steps * self._max_batched))
            for output in self._engine.step().outputs:
                ids += output.ids
        cache = self._engine.cache()
        self._guard = self._new_guard()
        self._pipe.send(Probed(tuple(ids), cache, time.monotonic() - began))

    def _last_words(self, kind: FaultKind, message: str) -> NoReturn:
        """Say what happened, then hold still until killed or until the gateway is gone."""
        gc.disable()
        phase = self._phase
        self._enter(Phase.LEAVING, named=self._named)  # whom it happened to stays on the page
        self._pipe.send(WorkerFault(kind, message, phase.name.lower()))
        while self._pipe.recv() is not EOF:
            pass
        raise LinkClosedError("the gateway is gone")

    def _enter(self, phase: Phase, *, tokens: int = 0, named: Sequence[int] = ()) -> None:
        self._phase, self._named = phase, named
        self._progress.write(
            phase,
            step=self._steps,
            begin_ns=time.monotonic_ns(),
            tokens=tokens,
            generations=named,
        )


def _request(add: Add) -> EngineRequest:
    try:
        tokens = unpack_ids(add.tokens)
    except ValueError as error:
        raise ProtocolError(f"token ids: {error}") from error
    if not 0 <= add.offset <= len(tokens):
        raise ProtocolError(f"offset {add.offset} of {len(tokens)} tokens")
    return EngineRequest(RequestKey(add.generation, add.attempt), tokens, add.offset, add.params)


def _fault_kind(error: EngineFaultError) -> FaultKind:
    return FaultKind.CONTEXT_FATAL if error.context_fatal else _fault_kind_of_text(str(error))


def _fault_kind_of_text(text: str) -> FaultKind:
    if is_context_fatal(text):
        return FaultKind.CONTEXT_FATAL
    return FaultKind.OUT_OF_MEMORY if is_out_of_memory(text) else FaultKind.STEP_FAULT
