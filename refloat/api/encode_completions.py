"""Events in the form of `/completions`: chunks, or one body."""

from collections.abc import Sequence
from typing import Any

import msgspec

from refloat.api.context import SessionPort
from refloat.api.encoder import (
    DONE,
    WAITING,
    answer_id,
    encode_text,
    finite_logprob,
    openai_failure,
    sse,
    sse_text_frames,
    stop_reason,
    token_text,
    usage_body,
)
from refloat.api.fold import Fold, FoldedChoice
from refloat.api.schema.answers import Completion, CompletionChoice, CompletionLogprobs
from refloat.api.translate import Order
from refloat.generation.events import ChoiceEnd, Delta, Parsed, Usage
from refloat.parsing.pipeline import TokenLogprob
from refloat.wire.problem import Problem

_encode = msgspec.json.Encoder().encode


class CompletionEncoder:
    """One text completion request's answers."""

    done = DONE
    waiting = WAITING

    def __init__(self, session: SessionPort, order: Order) -> None:
        request = order.request
        self._logprobs = request.sampling.logprobs
        self._alternatives = order.top_logprobs
        count = len(request.prompts) * request.n
        self._offsets = [0] * count
        """Characters before the next token of each choice, as its tokens count them."""
        self._usage_null = None if order.include_usage else msgspec.UNSET
        self.answer_id = answer_id("cmpl-", session.stream_id)
        self._common: dict[str, Any] = {
            "id": self.answer_id,
            "created": session.created,
            "model": session.model,
            "system_fingerprint": session.fingerprint,
        }
        shared = {**self._common, "object": "text_completion", "usage": self._usage_null}
        tail = b',"logprobs":null,"finish_reason":null'
        self._heads, self._tail = sse_text_frames(shared, count, b',"text":', tail)

    def opening(self) -> bytes:
        """Nothing comes before the text here."""
        return b""

    def delta(self, event: Delta) -> bytes:
        """A chunk with text."""
        if not self._logprobs:
            return self._heads[event.index] + encode_text(event.text) + self._tail
        logprobs = self._completion_logprobs(event.index, event.logprobs)
        return self._chunk(CompletionChoice(event.index, event.text, logprobs))

    def part(self, event: Parsed) -> bytes:
        """Completions are not parsed."""
        return b""

    def end(self, event: ChoiceEnd) -> bytes:
        """The choice's last chunk."""
        reason, cut = event.reason.value, stop_reason(event.cut)
        return self._chunk(CompletionChoice(event.index, "", finish_reason=reason, stop_reason=cut))

    def closing(self, usage: Usage) -> bytes:
        """The usage chunk, if it was asked for."""
        if self._usage_null is msgspec.UNSET:
            return b""
        return sse(Completion(**self._common, choices=[], usage=usage_body(usage)))

    def failure(self, problem: Problem) -> bytes:
        """The error's body as an event."""
        return openai_failure(problem)

    def whole(self, fold: Fold, usage: Usage) -> bytes:
        """One body."""
        choices = [self._choice(i, choice) for i, choice in enumerate(fold.choices)]
        return _encode(Completion(**self._common, choices=choices, usage=usage_body(usage)))

    def _choice(self, index: int, choice: FoldedChoice) -> CompletionChoice:
        assert choice.reason is not None
        logprobs = self._completion_logprobs(index, choice.logprobs) if self._logprobs else None
        reason, cut = choice.reason.value, stop_reason(choice.cut)
        return CompletionChoice(index, choice.text, logprobs, reason, cut)

    def _chunk(self, choice: CompletionChoice) -> bytes:
        return sse(Completion(**self._common, choices=[choice], usage=self._usage_null))

    def _completion_logprobs(
        self, index: int, tokens: Sequence[TokenLogprob]
    ) -> CompletionLogprobs:
        texts: list[str] = []
        values: list[float] = []
        offsets: list[int] = []
        for token in tokens:
            texts.append(token_text(token.raw))
            values.append(finite_logprob(token.logprob))
            offsets.append(self._offsets[index])
            self._offsets[index] += _characters_begun(token.raw)
        top = None
        if self._alternatives:
            top = [{text: value} for text, value in zip(texts, values, strict=True)]
        return CompletionLogprobs(texts, values, top, offsets)


def _characters_begun(raw: bytes) -> int:
    """Characters that begin in these bytes; a character split over tokens counts once."""
    return sum(1 for byte in raw if byte & 0xC0 != 0x80)
