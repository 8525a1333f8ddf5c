"""One request that OpenVINO's engine holds: its handle, and where its answer stands.

A request's end is judged by its ids and by our own intent, not by the engine's status: a cancelled
request may end IGNORED. A hybrid model's must not end at exactly one token, and with a prefix cache
none may end in the midst of its prompt: the engine would keep a block that is computed in part as if
it were whole, for whoever comes with the same prompt.
"""

from collections.abc import Mapping
from typing import Protocol

import msgspec
import openvino_genai as genai

from refloat.engines.base import EngineRequest
from refloat.wire.messages import Output

_RUNNING = genai.GenerationStatus.RUNNING
_IGNORED = genai.GenerationStatus.IGNORED


class StepOutput(Protocol):
    """What a handle gives for one step (openvino_genai does not export its type)."""

    @property
    def generated_ids(self) -> list[int]: ...
    @property
    def generated_log_probs(self) -> list[float]: ...


class Handle(Protocol):
    """The engine's handle of one request."""

    def can_read(self) -> bool: ...
    def read(self) -> Mapping[int, StepOutput]: ...
    def get_status(self) -> genai.GenerationStatus: ...
    def cancel(self) -> None: ...


class LiveRequest:
    """One request that the engine holds, and where its answer stands."""

    __slots__ = (
        "_attempt", "_begun", "_caching", "_can_read", "_dropped", "_generation", "_handle", "_hybrid",
        "_limit", "_logprobs", "_min_tokens", "_position", "_read", "_start", "_stop_ids", "_told",
        "ending", "tokens",
    )  # fmt: skip

    def __init__(
        self, request: EngineRequest, handle: Handle, *, hybrid: bool, caching: bool
    ) -> None:
        params = request.params
        self._generation, self._attempt = request.key
        self._handle = handle
        self._can_read = handle.can_read
        self._read = handle.read
        self._start = self._position = request.offset
        self._dropped = 0
        self._limit = params.max_tokens
        self._min_tokens = params.min_tokens
        self._stop_ids = frozenset(params.stop_token_ids)
        self._logprobs = params.logprobs
        self._hybrid = hybrid
        self._caching = caching
        self._begun = False
        """Whether there was a step since it came."""
        self._told = False
        """Whether the engine knows of the end; the next step then frees it."""
        self.ending: str | None = None
        """Set once nothing more is wanted: the word for its end."""
        self.tokens = request.tokens
        """Its prompt, as the engine was given it."""

    @property
    def produced(self) -> int:
        """Tokens that the engine has generated."""
        return self._position - self._start + self._dropped

    def end(self, word: str) -> None:
        """Want no more. One in the midst of its prompt may first have to come to its first token, and
        a hybrid model's to its second."""
        if self.ending is None:
            self.ending = word
        if not self._told and not self._must_go_on():
            self._told = True
            self._handle.cancel()

    def _must_go_on(self) -> bool:
        produced = self.produced
        if produced == 0:
            return self._caching and self._begun
        return self._hybrid and produced == 1

    def collect(self) -> Output | None:
        """What the step that just ended brought for this request; `None`: nothing.

        Called for every request after every step: the common case comes first and alone.
        """
        self._begun = True
        if self.ending is not None:
            return self._collect_end(self.ending)
        if not self._can_read():
            status = self._handle.get_status()
            return None if status == _RUNNING else self._ended_by_engine(status)
        for result in self._read().values():
            ids = result.generated_ids
            if len(ids) == 1 and not self._logprobs:
                offset = self._position
                token = ids[0]
                if offset + 1 < self._limit and token not in self._stop_ids:
                    self._position = offset + 1
                    return Output(self._generation, self._attempt, offset, (token,))
            return self._collect_any(ids, result)
        return self._ended_by_engine(self._handle.get_status())

    def _collect_any(self, ids: list[int], result: StepOutput) -> Output:
        taken, word = self._judge(ids)
        logprobs = tuple(result.generated_log_probs[:taken]) if self._logprobs else None
        output = self._output(tuple(ids[:taken]), logprobs, word)
        if word is not None and self._handle.get_status() == _RUNNING:
            self._dropped = len(ids) - taken
            self.end(word)
            return msgspec.structs.replace(output, ended=None)
        return output

    def _collect_end(self, word: str) -> Output | None:
        if not self._told:
            if self._can_read():
                self._read()
                self._dropped += 1
            if self._handle.get_status() == _RUNNING:
                self.end(word)
                return None
        return self._output((), None, word)

    def _ended_by_engine(self, status: genai.GenerationStatus) -> Output:
        """An end that neither the caller nor the ids asked for: the cache was full."""
        return self._output((), None, "ignored" if status == _IGNORED else "length")

    def _judge(self, ids: list[int]) -> tuple[int, str | None]:
        """How many of these ids belong to the answer, and the word for its end if they end it."""
        position = self._position
        for count, token in enumerate(ids, start=1):
            if token in self._stop_ids and position + count > self._min_tokens:
                return count, "stop"
            if position + count >= self._limit:
                return count, "length"
        return len(ids), None

    def _output(
        self, ids: tuple[int, ...], logprobs: tuple[float, ...] | None, ended: str | None
    ) -> Output:
        offset = self._position
        self._position = offset + len(ids)
        return Output(self._generation, self._attempt, offset, ids, logprobs, ended)
