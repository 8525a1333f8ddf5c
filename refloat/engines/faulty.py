"""A wrapper that hurts a working engine where a fault plan (`faults/plan.py`) says so.

An entry is announced before it acts, so that whoever keeps the plan knows of it even if this process
never says another word.
"""

import ctypes
import os
import signal
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple, NoReturn, assert_never

import msgspec

from refloat.engines.base import (
    PROBE_KEY,
    Engine,
    EngineFaultError,
    EngineRequest,
    LoadError,
    RequestKey,
    RequestRefusedError,
    StepResult,
    Wedgeable,
)
from refloat.faults.plan import FaultAct, FaultAt, FaultEntry
from refloat.wire.messages import CacheFacts, Capabilities, EngineSpec
from refloat.wire.problem import Problem, ProblemKind

TextOf = Callable[[Sequence[int]], str]

_SLOW_S = 0.2
_EXIT_CODE = 1
_CONTEXT_FATAL = "[GPU] clFinish, error code: -5 CL_OUT_OF_RESOURCES"
_OUT_OF_MEMORY = "std::bad_alloc: out of memory"


class FaultHooks(NamedTuple):
    """What an entry may do beside hurting the engine."""

    fired: Callable[[int], None]
    """Announce that the entry with this index had a chance, used or passed."""
    send_junk: Callable[[], None]
    close_link: Callable[[], None]


class _Live:
    """What the plan has to know of a running request."""

    __slots__ = ("matched", "position")

    def __init__(self, request: EngineRequest, matched: list[bool]) -> None:
        self.matched = matched
        """By entry: whether the prompt is one that the entry waits for."""
        self.position = request.offset


class FaultyEngine:
    """An engine and a plan; an engine again."""

    def __init__(
        self,
        inner: Engine,
        plan: Sequence[FaultEntry],
        hooks: FaultHooks,
        text_of: TextOf | None,
    ) -> None:
        self._inner = inner
        self.capabilities: Capabilities = inner.capabilities
        self._plan = plan
        self._left = [entry.times for entry in plan]
        self._skip = [entry.skip for entry in plan]
        self._hooks = hooks
        self._text_of = text_of
        self._live: dict[RequestKey, _Live] = {}
        self._wedged: str | None = None

    def load(self, spec: EngineSpec) -> None:
        if self._text_of is None and any(entry.match is not None for entry in self._plan):
            raise LoadError("faults: match needs the scripted engine", permanent=True)
        self._left = [
            0 if entry.max_rung is not None and spec.rung > entry.max_rung else left
            for entry, left in zip(self._plan, self._left, strict=True)
        ]
        for index, entry in self._due(FaultAt.LOAD):
            self._fire(index, entry)
        self._inner.load(spec)
        self.capabilities = self._inner.capabilities

    def add(self, request: EngineRequest) -> None:
        matched = self._matched(request)
        for index, entry in self._due(FaultAt.ADD):
            if request.key != PROBE_KEY and matched[index]:
                self._fire(index, entry)
        self._inner.add(request)
        self._live[request.key] = _Live(request, matched)

    def step(self) -> StepResult:
        if self._wedged is not None:
            raise EngineFaultError(self._wedged, context_fatal=False)
        spoil = False
        for index, entry in self._due_in_step():
            if self._fire(index, entry) is FaultAct.WRONG_OUTPUT:
                spoil = True
        result = self._inner.step()
        if spoil:
            result = _spoilt(result)
        for output in result.outputs:
            key = RequestKey(output.generation, output.attempt)
            if output.ended is not None:
                self._live.pop(key, None)
            elif live := self._live.get(key):
                live.position = output.offset + len(output.ids)
        return result

    def cancel(self, key: RequestKey) -> None:
        self._inner.cancel(key)
        self._live.pop(key, None)  # it takes part in no step any more

    def has_work(self) -> bool:
        return self._inner.has_work()

    def cache(self) -> CacheFacts | None:
        return self._inner.cache()

    def spent(self, index: int) -> None:
        """The entry had a chance elsewhere: the plan is the model's, not this engine's alone."""
        if 0 <= index < len(self._plan):
            counts = self._skip if self._skip[index] else self._left
            counts[index] = max(0, counts[index] - 1)

    def _due(self, at: FaultAt) -> list[tuple[int, FaultEntry]]:
        return [
            (index, entry)
            for index, entry in enumerate(self._plan)
            if entry.at is at and self._left[index] > 0
        ]

    def _due_in_step(self) -> list[tuple[int, FaultEntry]]:
        if PROBE_KEY in self._live:
            return self._due(FaultAt.PROBE)
        due = [
            (index, entry)
            for index, entry in self._due(FaultAt.STEP)
            if any(live.matched[index] for live in self._live.values())
        ]
        due += [
            (index, entry)
            for index, entry in self._due(FaultAt.TOKEN)
            if any(
                live.position == entry.token and live.matched[index] for live in self._live.values()
            )
        ]
        return due

    def _matched(self, request: EngineRequest) -> list[bool]:
        """By entry, once a request: a plan may have hundreds, and every step looks at all."""
        prompt = request.tokens[: len(request.tokens) - request.offset]
        is_read = any(entry.match is not None for entry in self._plan)
        text = self._text_of(prompt) if is_read and self._text_of is not None else ""
        return [_matches(entry, prompt, text) for entry in self._plan]

    def _fire(self, index: int, entry: FaultEntry) -> FaultAct | None:
        """Let the entry act; `None`: it let this chance pass."""
        self._hooks.fired(index)
        if self._skip[index]:
            self._skip[index] -= 1
            return None
        self._left[index] -= 1
        self._act(entry)
        return entry.kind

    def _act(self, entry: FaultEntry) -> None:
        match entry.kind:
            case FaultAct.WEDGE | FaultAct.WEDGE_GRAMMAR if isinstance(self._inner, Wedgeable):
                # the step that comes will raise by itself, and every later one
                self._inner.wedge(by_grammar=entry.kind is FaultAct.WEDGE_GRAMMAR)
            case (
                FaultAct.RAISE
                | FaultAct.CONTEXT_FATAL
                | FaultAct.OOM
                | FaultAct.WEDGE
                | FaultAct.WEDGE_GRAMMAR
            ):
                self._raise(entry)
            case FaultAct.REFUSE:
                message = entry.message or "refused by the fault plan"
                raise RequestRefusedError(Problem(ProblemKind.INVALID_REQUEST, message))
            case FaultAct.SEGV | FaultAct.ABORT | FaultAct.KILL | FaultAct.EXIT:
                _die(entry.kind)
            case FaultAct.STOP:
                os.kill(os.getpid(), signal.SIGSTOP)
            case FaultAct.HANG | FaultAct.SLOW:
                _wait(entry)
            case FaultAct.GARBAGE:
                self._hooks.send_junk()
            case FaultAct.CLOSE_SOCKET:
                self._hooks.close_link()
                _wait_for_ever()
            case FaultAct.WRONG_OUTPUT:
                pass  # done to the step's result
            case _:
                assert_never(entry.kind)

    def _raise(self, entry: FaultEntry) -> NoReturn:
        match entry.kind:
            case FaultAct.CONTEXT_FATAL:
                message = entry.message or _CONTEXT_FATAL
            case FaultAct.OOM:
                message = entry.message or _OUT_OF_MEMORY
            case _:
                message = entry.message or "fault plan: raised"
        if entry.at is FaultAt.LOAD:
            raise LoadError(message, permanent=False, out_of_memory=entry.kind is FaultAct.OOM)
        if entry.kind in (FaultAct.WEDGE, FaultAct.WEDGE_GRAMMAR):
            self._wedged = message
        raise EngineFaultError(message, context_fatal=entry.kind is FaultAct.CONTEXT_FATAL)


def _matches(entry: FaultEntry, prompt: list[int], text: str) -> bool:
    if entry.match is not None:
        return entry.match in text
    if entry.match_tokens is not None:
        wanted = entry.match_tokens
        return any(
            prompt[start : start + len(wanted)] == wanted
            for start in range(len(prompt) - len(wanted) + 1)
        )
    return True


def _die(kind: FaultAct) -> NoReturn:
    match kind:
        case FaultAct.SEGV:
            ctypes.string_at(0)
        case FaultAct.ABORT:
            os.abort()
        case FaultAct.KILL:
            os.kill(os.getpid(), signal.SIGKILL)
        case _:
            pass
    os._exit(_EXIT_CODE)


def _wait(entry: FaultEntry) -> None:
    if entry.seconds is not None:
        time.sleep(entry.seconds)
    elif entry.kind is FaultAct.HANG:
        _wait_for_ever()
    else:
        time.sleep(_SLOW_S)


def _wait_for_ever() -> NoReturn:
    while True:
        signal.pause()


def _spoilt(result: StepResult) -> StepResult:
    """The same outputs with other ids, of which the vocabulary has every one."""
    outputs = [
        msgspec.structs.replace(
            output, ids=tuple(token - 1 if token else 1 for token in output.ids)
        )
        for output in result.outputs
    ]
    return StepResult(outputs, result.used_blocks)
