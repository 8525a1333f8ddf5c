"""Events in the form of `/chat/completions`: chunks, or one body."""

from typing import Any

import msgspec

from refloat.api.chat_parts import delta_of, message_of
from refloat.api.context import SessionPort
from refloat.api.encoder import (
    DONE,
    WAITING,
    answer_id,
    encode_text,
    finite_logprob,
    line_safe,
    openai_failure,
    sse,
    sse_text_frames,
    stop_reason,
    token_text,
    usage_body,
)
from refloat.api.fold import Fold, FoldedChoice
from refloat.api.schema.answers import (
    ChatChoice,
    ChatChunk,
    ChatChunkChoice,
    ChatCompletion,
    ChatDelta,
    ChatLogprobs,
    ChatTokenLogprob,
    TopLogprob,
)
from refloat.api.translate import Order
from refloat.generation.events import ChoiceEnd, Delta, Parsed, Usage
from refloat.parsing.pipeline import TokenLogprob
from refloat.wire.problem import Problem

_encode = msgspec.json.Encoder().encode


class ChatEncoder:
    """One chat request's answers."""

    done = DONE
    waiting = WAITING

    def __init__(self, session: SessionPort, order: Order) -> None:
        self._logprobs = order.request.sampling.logprobs
        self._alternatives = order.top_logprobs
        self._count = order.request.n
        self._usage_null = None if order.include_usage else msgspec.UNSET
        self.answer_id = answer_id("chatcmpl-", session.stream_id)
        self._common: dict[str, Any] = {
            "id": self.answer_id,
            "created": session.created,
            "model": session.model,
            "system_fingerprint": session.fingerprint,
        }
        shared = {**self._common, "object": "chat.completion.chunk", "usage": self._usage_null}
        lead = b',"delta":{"content":'
        self._heads, self._tail = sse_text_frames(
            shared, self._count, lead, b'},"logprobs":null,"finish_reason":null'
        )
        _, self._bare_tail = sse_text_frames(shared, self._count, lead, b"")

    def opening(self) -> bytes:
        """One chunk for each choice says whose words follow."""
        role = ChatDelta(role="assistant", content="")
        return b"".join(self._chunk(ChatChunkChoice(i, role)) for i in range(self._count))

    def delta(self, event: Delta) -> bytes:
        """A chunk with text, and with its tokens' log-probabilities if they were asked for."""
        head = self._heads[event.index] + encode_text(event.text)
        if not self._logprobs:
            return head + self._tail
        logprobs = line_safe(_encode(self._chat_logprobs(event.logprobs)))
        return head + b'},"logprobs":' + logprobs + b',"finish_reason":null' + self._bare_tail

    def part(self, event: Parsed) -> bytes:
        """A chunk with reasoning, or with something of a call."""
        delta = delta_of(event)
        return b"" if delta is None else self._chunk(ChatChunkChoice(event.index, delta))

    def end(self, event: ChoiceEnd) -> bytes:
        """The choice's last chunk."""
        return self._chunk(
            ChatChunkChoice(
                event.index,
                ChatDelta(),
                finish_reason=event.reason.value,
                stop_reason=stop_reason(event.cut),
            )
        )

    def closing(self, usage: Usage) -> bytes:
        """The usage chunk, if it was asked for."""
        if self._usage_null is msgspec.UNSET:
            return b""
        return sse(ChatChunk(**self._common, choices=[], usage=usage_body(usage)))

    def failure(self, problem: Problem) -> bytes:
        """The error's body as an event."""
        return openai_failure(problem)

    def whole(self, fold: Fold, usage: Usage) -> bytes:
        """One body."""
        choices = [self._choice(i, choice) for i, choice in enumerate(fold.choices)]
        return _encode(ChatCompletion(**self._common, choices=choices, usage=usage_body(usage)))

    def _choice(self, index: int, choice: FoldedChoice) -> ChatChoice:
        assert choice.reason is not None
        return ChatChoice(
            index=index,
            message=message_of(choice),
            finish_reason=choice.reason.value,
            logprobs=self._chat_logprobs(choice.logprobs) if self._logprobs else None,
            stop_reason=stop_reason(choice.cut),
        )

    def _chunk(self, choice: ChatChunkChoice) -> bytes:
        return sse(ChatChunk(**self._common, choices=[choice], usage=self._usage_null))

    def _chat_logprobs(self, tokens: tuple[TokenLogprob, ...] | list[TokenLogprob]) -> ChatLogprobs:
        return ChatLogprobs([self._token(token) for token in tokens])

    def _token(self, token: TokenLogprob) -> ChatTokenLogprob:
        text, value, raw = token_text(token.raw), finite_logprob(token.logprob), list(token.raw)
        top = [TopLogprob(text, value, raw)] if self._alternatives else []
        return ChatTokenLogprob(text, value, raw, top)
