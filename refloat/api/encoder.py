"""What every dialect's encoder does, and the parts that they share."""

import math
import secrets
from typing import Any, Protocol

import msgspec

from refloat.api.errors import openai_error_body
from refloat.api.fold import Fold
from refloat.api.schema.answers import (
    LOGPROB_FLOOR,
    CompletionTokensDetails,
    PromptTokensDetails,
    UsageBody,
)
from refloat.generation.events import ChoiceEnd, Delta, Parsed, Usage
from refloat.generation.runaway import Cut
from refloat.wire.problem import Problem

DONE = b"data: [DONE]\n\n"
#: A comment, which every reader of events skips.
WAITING = b": waiting\n\n"
_encode = msgspec.json.Encoder().encode


class AnswerEncoder(Protocol):
    """From events to bytes, for one request. Stream and whole answer come from the same events."""

    answer_id: str
    """Told in every chunk; the same for everybody who reads the same generation."""
    done: bytes
    """Comes last in every stream, whatever its end."""

    @property
    def waiting(self) -> bytes:
        """What keeps a stream alive while nothing else comes."""
        ...

    def opening(self) -> bytes:
        """What a stream begins with, before any text."""
        ...

    def delta(self, event: Delta) -> bytes:
        """One server-sent event. The hot path: once for each streamed token."""
        ...

    def part(self, event: Parsed) -> bytes:
        """One server-sent event for what is not text; empty where the dialect has no words for it."""
        ...

    def end(self, event: ChoiceEnd) -> bytes:
        """The one chunk that carries this choice's finish reason."""
        ...

    def closing(self, usage: Usage) -> bytes:
        """What comes between the last choice's end and `done`."""
        ...

    def failure(self, problem: Problem) -> bytes:
        """The end of a stream that had begun and cannot go on, but for `done`."""
        ...

    def whole(self, fold: Fold, usage: Usage) -> bytes:
        """The body of an answer that is not streamed."""
        ...


def answer_id(prefix: str, stream_id: str | None) -> str:
    """An id that no other answer has."""
    return f"{prefix}{stream_id or secrets.token_hex(16)}"


def sse(value: Any) -> bytes:
    """One server-sent event."""
    return b"data: " + line_safe(_encode(value)) + b"\n\n"


def named_sse(name: str, value: Any) -> bytes:
    """One server-sent event with its name."""
    return b"event: " + name.encode() + b"\ndata: " + line_safe(_encode(value)) + b"\n\n"


def openai_failure(problem: Problem) -> bytes:
    """An error as an event of the two older dialects of OpenAI's."""
    return sse(openai_error_body(problem))


def sse_text_frames(
    common: dict[str, Any], count: int, lead: bytes, tail: bytes
) -> tuple[list[bytes], bytes]:
    """Bytes around the text of a delta, made once for a stream: one head per choice, and the tail.

    `lead` goes between the choice's index and the text, `tail` between the text and the choice's end.
    """
    usage = common.get("usage", msgspec.UNSET)
    shared = {key: value for key, value in common.items() if key != "usage"}
    head = b"data: " + line_safe(_encode(shared))[:-1] + b',"choices":[{"index":'
    heads = [head + str(index).encode() + lead for index in range(count)]
    return heads, tail + b"}]" + (b"" if usage is msgspec.UNSET else b',"usage":null') + b"}\n\n"


def encode_text(text: str) -> bytes:
    """A JSON string."""
    data = _encode(text)
    return data if text.isascii() else line_safe(data)


def line_safe(data: bytes) -> bytes:
    """JSON without the characters at which some clients' line readers break a server-sent event."""
    if b"\xe2\x80" in data:
        data = data.replace(b"\xe2\x80\xa8", b"\\u2028").replace(b"\xe2\x80\xa9", b"\\u2029")
    if b"\xc2\x85" in data:
        data = data.replace(b"\xc2\x85", b"\\u0085")
    return data


def usage_body(usage: Usage) -> UsageBody:
    """The tokens in OpenAI's shape."""
    return UsageBody(
        prompt_tokens=usage.prompt_tokens,
        completion_tokens=usage.completion_tokens,
        total_tokens=usage.prompt_tokens + usage.completion_tokens,
        prompt_tokens_details=PromptTokensDetails(usage.cached_tokens),
        completion_tokens_details=CompletionTokensDetails(usage.reasoning_tokens),
    )


def stop_reason(cut: Cut | None) -> str | msgspec.UnsetType:
    """What is told of a rule that ended a choice; nothing where none did."""
    return msgspec.UNSET if cut is None else cut.value


def finite_logprob(value: float) -> float:
    """A number that strict JSON can carry."""
    return value if math.isfinite(value) else LOGPROB_FLOOR


def token_text(raw: bytes) -> str:
    """A token's text; a part of a character shows as U+FFFD, its bytes are told beside it."""
    return raw.decode("utf-8", "replace")
