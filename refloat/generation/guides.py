"""The verdicts on wishes for an answer's form: each is made once, and kept for the next who asks."""

import asyncio
from collections import OrderedDict
from dataclasses import dataclass
from hashlib import blake2b
from typing import NamedTuple

import msgspec

from refloat.generation.ports import PrepPort
from refloat.wire.guide import Guide, GuideRequest
from refloat.wire.problem import Problem, ProblemError, ProblemKind

_encode = msgspec.msgpack.Encoder().encode
#: What a verdict takes beside its text.
_ENTRY_BYTES = 512


class _Kept(NamedTuple):
    """A verdict that is the same for everybody who asks the same."""

    verdict: Guide | Problem
    size_bytes: int


@dataclass(slots=True)
class _Trial:
    """A verdict that is being made."""

    task: asyncio.Task[Guide]
    askers: int = 0


class GuideShelf:
    """For one model, since verdicts depend on its tokenizer. Least recently used ones go first."""

    def __init__(self, prep: PrepPort, *, max_bytes: int = 8 << 20) -> None:
        self._prep = prep
        self._max_bytes = max_bytes
        self._kept: OrderedDict[bytes, _Kept] = OrderedDict()
        self._size_bytes = 0
        self._making: dict[bytes, _Trial] = {}

    async def guide(self, wish: GuideRequest, tenant: str) -> Guide:
        """Raises `ProblemError`. Who asks for the same meanwhile waits for the same trial, which is
        given up when all of them have left."""
        key = blake2b(_encode(wish), digest_size=16).digest()
        kept = self._kept.get(key)
        if kept is None:
            return await self._made(key, wish, tenant)
        self._kept.move_to_end(key)
        if isinstance(kept.verdict, Problem):
            raise kept.verdict.raised()
        return kept.verdict

    async def _made(self, key: bytes, wish: GuideRequest, tenant: str) -> Guide:
        trial = self._trial(key, wish, tenant)
        trial.askers += 1
        try:
            return await asyncio.shield(trial.task)
        finally:
            trial.askers -= 1
            if not trial.askers and not trial.task.done():
                trial.task.cancel()
                self._making.pop(key, None)  # whoever asks from now on has one of his own

    async def _make(self, key: bytes, wish: GuideRequest, tenant: str) -> Guide:
        try:
            guide = await self._prep.make_guide(wish, tenant=tenant)
        except ProblemError as error:
            if error.problem.kind is ProblemKind.INVALID_REQUEST:
                self._keep(key, error.problem, len(error.problem.message))
            raise
        self._keep(key, guide, len(guide.ebnf))
        return guide

    def _trial(self, key: bytes, wish: GuideRequest, tenant: str) -> _Trial:
        trial = self._making.get(key)
        if trial is None:
            task = asyncio.get_running_loop().create_task(
                self._make(key, wish, tenant), name="guide"
            )
            trial = self._making[key] = _Trial(task)
            task.add_done_callback(lambda task: self._forget(key, task))
        return trial

    def _forget(self, key: bytes, task: asyncio.Task[Guide]) -> None:
        trial = self._making.get(key)
        if trial is not None and trial.task is task:
            del self._making[key]
        if not task.cancelled():
            task.exception()  # whoever asked was told, if anybody is still there

    def _keep(self, key: bytes, verdict: Guide | Problem, chars: int) -> None:
        size_bytes = _ENTRY_BYTES + 4 * chars
        self._kept[key] = _Kept(verdict, size_bytes)
        self._size_bytes += size_bytes
        while self._size_bytes > self._max_bytes:
            _, oldest = self._kept.popitem(last=False)
            self._size_bytes -= oldest.size_bytes
