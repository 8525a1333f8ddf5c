"""The journal: one generation as a value, append-only and serialisable. No I/O, no clock, no text.

It holds all that is needed to go on elsewhere: prompt, parameters, emitted ids. A worker only borrows
it, under an attempt number; ids of another attempt, or at another offset than the next one, are
refused, so a late frame of a dead attempt can neither repeat nor lose a token.
"""

from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple

import msgspec

from refloat.generation.events import FinishReason
from refloat.generation.seeds import resume_seed
from refloat.generation.states import TERMINAL, GenerationEvent, GenerationState, next_state
from refloat.wire.guide import Guide
from refloat.wire.messages import Add, Output, SamplingParams, pack_ids


class Refusal(StrEnum):
    """Why a journal would not take an output."""

    STALE_ATTEMPT = "stale_attempt"
    OFFSET_GAP = "offset_gap"
    """Ids are missing or repeated: the worker's account cannot be trusted any more."""
    UNEVEN = "uneven"
    """There is not one log-probability for each id."""
    ENDED = "ended"


_WITH_WORKER = frozenset({GenerationState.DISPATCHED, GenerationState.RUNNING})


class Accepted(NamedTuple):
    """What one output added."""

    ids: tuple[int, ...]
    logprobs: tuple[float, ...] | None
    finish: FinishReason | None
    """Set when these ids complete the generation by its own terms."""


class Journal(msgspec.Struct):
    """One generation. Only `generation/dispatch.py` changes one, through the methods."""

    generation: int
    """Unique in this gateway's life."""
    tenant: str
    index: int
    """Which choice of its request."""
    prompt: list[int]
    params: SamplingParams
    emitted: list[int] = msgspec.field(default_factory=list[int])
    logprobs: list[float] = msgspec.field(default_factory=list[float])
    attempt: int = 0
    state: GenerationState = GenerationState.QUEUED
    finish: FinishReason | None = None
    rest: Guide | None = None
    """What the guide leaves for the text behind the first `rest_from` ids."""
    rest_from: int = 0

    @property
    def needs_rest(self) -> bool:
        """Whether it is guided and has to be told what its guide leaves, before it may go on."""
        count = len(self.emitted)
        return self.params.guide is not None and count > 0 and self.rest_from != count

    @property
    def is_terminal(self) -> bool:
        """Whether nothing more can happen to it."""
        return self.state in TERMINAL

    @property
    def tokens_needed(self) -> int:
        """Tokens it will hold at its longest: what the KV cache has to have room for."""
        return len(self.prompt) + self.params.max_tokens

    def apply(self, event: GenerationEvent) -> None:
        """Move along the table. Raises `IllegalTransitionError`."""
        self.state = next_state(self.state, event)

    def dispatch(self) -> Add:
        """Begin the next attempt: the command that makes a worker go on from here."""
        self.apply(GenerationEvent.DISPATCH)
        self.attempt += 1
        return Add(
            generation=self.generation,
            attempt=self.attempt,
            tokens=pack_ids(self.prompt + self.emitted),
            offset=len(self.emitted),
            params=self._params_from_here(),
        )

    def accept(self, output: Output) -> Accepted | Refusal:
        """Append what a worker sent, if it is the next thing to append.

        Ids behind the one that completes the generation are dropped: a hybrid engine is asked for
        more than it should give, and a cancel may cross a frame.
        """
        if self.state not in _WITH_WORKER:
            return Refusal.ENDED if self.is_terminal else Refusal.STALE_ATTEMPT
        if output.attempt != self.attempt:
            return Refusal.STALE_ATTEMPT
        if output.offset != len(self.emitted):
            return Refusal.OFFSET_GAP
        if output.logprobs is not None and len(output.logprobs) != len(output.ids):
            return Refusal.UNEVEN
        ids, finish = self._cut(output.ids)
        logprobs = output.logprobs[: len(ids)] if output.logprobs is not None else None
        if ids:
            if self.state is not GenerationState.RUNNING:
                self.apply(GenerationEvent.OUTPUT)
            self.emitted.extend(ids)
            if logprobs is not None:
                self.logprobs.extend(logprobs)
        if finish is not None:
            self.finish_with(finish)
        return Accepted(ids, logprobs, finish)

    def finish_with(self, reason: FinishReason) -> None:
        """Complete: by its own ids, or because a stop string was found in its text."""
        self.apply(GenerationEvent.FINISH)
        self.finish = reason

    def shorten(self, max_tokens: int) -> None:
        """There is less room than when it was taken on. Only while no worker has it."""
        least = min(self.params.min_tokens, max_tokens)
        self.params = msgspec.structs.replace(self.params, max_tokens=max_tokens, min_tokens=least)

    def know_rest(self, position: int, rest: Guide | None) -> None:
        """What the guide leaves behind so many ids; `None`: nobody knows, and it goes on without.
        Ignored if it has others by now."""
        if position == len(self.emitted):
            self.rest, self.rest_from = rest, position

    def take_back(self, count: int) -> None:
        """The last ids never were: nothing of their text went out. Only while no worker has it."""
        del self.emitted[-count:]
        del self.logprobs[len(self.emitted) :]

    def put_back(self, ids: Sequence[int]) -> None:
        """These ids say what was taken back and went out, as far as it is whole characters."""
        self.emitted.extend(ids)
        if self.params.logprobs:
            self.logprobs.extend(0.0 for _ in ids)

    def _params_from_here(self) -> SamplingParams:
        """A sampled generation that goes on draws other numbers than those it has used, and a guided
        one goes on in the midst of its grammar. Raises `ValueError` if that is not known."""
        params = self.params
        if self.needs_rest:
            raise ValueError(f"generation {self.generation} has no guide from here on")
        if params.guide is not None and self.emitted:
            params = msgspec.structs.replace(params, guide=self.rest)
        if not self.emitted or params.temperature == 0:
            return params
        return msgspec.structs.replace(params, seed=resume_seed(params.seed, len(self.emitted)))

    def _cut(self, ids: tuple[int, ...]) -> tuple[tuple[int, ...], FinishReason | None]:
        """The ids up to and with the one that ends the generation, and why it ends."""
        stop_ids = self.params.stop_token_ids
        position = len(self.emitted)
        for count, token in enumerate(ids, start=1):
            if token in stop_ids and position + count > self.params.min_tokens:
                return ids[:count], FinishReason.STOP
            if position + count >= self.params.max_tokens:
                return ids[:count], FinishReason.LENGTH
        return ids, None
