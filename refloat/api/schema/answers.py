"""The bodies of answers, as structs: what is encoded is what `/openapi.json` documents."""

from typing import Literal

import msgspec

#: In place of a log-probability that JSON cannot carry (minus infinity, NaN).
LOGPROB_FLOOR = -9999.0


class PromptTokensDetails(msgspec.Struct):
    """Of the prompt's tokens."""

    cached_tokens: int


class CompletionTokensDetails(msgspec.Struct):
    """Of the answer's tokens."""

    reasoning_tokens: int = 0


class UsageBody(msgspec.Struct):
    """Tokens over all choices."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    prompt_tokens_details: PromptTokensDetails
    completion_tokens_details: CompletionTokensDetails


class TopLogprob(msgspec.Struct):
    """One candidate at one position."""

    token: str
    logprob: float
    bytes: list[int]


class ChatTokenLogprob(msgspec.Struct):
    """The chosen token at one position."""

    token: str
    logprob: float
    bytes: list[int]
    top_logprobs: list[TopLogprob]


class ChatLogprobs(msgspec.Struct):
    """Log-probabilities of a chat choice."""

    content: list[ChatTokenLogprob]
    refusal: None = None


class AnswerFunction(msgspec.Struct):
    """What is called."""

    name: str
    arguments: str
    """JSON, as far as the model managed it."""


class AnswerCall(msgspec.Struct):
    """One call to a tool."""

    id: str
    function: AnswerFunction
    type: Literal["function"] = "function"


class AnswerMessage(msgspec.Struct):
    """What the model said. `content` is null where it did nothing but call."""

    content: str | None
    role: Literal["assistant"] = "assistant"
    refusal: str | None = None
    reasoning_content: str | msgspec.UnsetType = msgspec.UNSET
    """There only if the model thought in words."""
    tool_calls: list[AnswerCall] | msgspec.UnsetType = msgspec.UNSET
    """There only if it called."""


class ChatChoice(msgspec.Struct):
    """One of `n` answers."""

    index: int
    message: AnswerMessage
    finish_reason: str
    logprobs: ChatLogprobs | None = None
    stop_reason: str | msgspec.UnsetType = msgspec.UNSET
    """Only where a rule against runaway answers ended it: `max_generation_s` or `repetition`."""


class ChatCompletion(msgspec.Struct):
    """A whole chat answer."""

    id: str
    created: int
    model: str
    system_fingerprint: str
    choices: list[ChatChoice]
    usage: UsageBody
    object: Literal["chat.completion"] = "chat.completion"


class FunctionDelta(msgspec.Struct, omit_defaults=True):
    """What a chunk adds to a call: the name with its first one, then arguments."""

    name: str | None = None
    arguments: str | None = None


class CallDelta(msgspec.Struct, omit_defaults=True):
    """What a chunk adds to one of the calls; id and type come with its first one."""

    index: int
    id: str | None = None
    type: str | None = None
    function: FunctionDelta | None = None


class ChatDelta(msgspec.Struct, omit_defaults=True):
    """What a chunk adds to a message."""

    role: str | None = None
    content: str | None = None
    reasoning_content: str | None = None
    tool_calls: list[CallDelta] | None = None


class ChatChunkChoice(msgspec.Struct):
    """One choice's part of a chunk."""

    index: int
    delta: ChatDelta
    logprobs: ChatLogprobs | None = None
    finish_reason: str | None = None
    stop_reason: str | msgspec.UnsetType = msgspec.UNSET


class ChatChunk(msgspec.Struct):
    """One event of a chat stream. `usage` is there only if it was asked for."""

    id: str
    created: int
    model: str
    system_fingerprint: str
    choices: list[ChatChunkChoice]
    object: Literal["chat.completion.chunk"] = "chat.completion.chunk"
    usage: UsageBody | msgspec.UnsetType | None = msgspec.UNSET


class CompletionLogprobs(msgspec.Struct):
    """Log-probabilities of a completion, in the older form."""

    tokens: list[str]
    token_logprobs: list[float]
    top_logprobs: list[dict[str, float]] | None
    text_offset: list[int]


class CompletionChoice(msgspec.Struct):
    """One of the answers (`prompts` times `n`), whole or a chunk's part of it."""

    index: int
    text: str
    logprobs: CompletionLogprobs | None = None
    finish_reason: str | None = None
    stop_reason: str | msgspec.UnsetType = msgspec.UNSET


class Completion(msgspec.Struct):
    """A completion, or one event of its stream."""

    id: str
    created: int
    model: str
    system_fingerprint: str
    choices: list[CompletionChoice]
    object: Literal["text_completion"] = "text_completion"
    usage: UsageBody | msgspec.UnsetType | None = msgspec.UNSET


class ErrorDetail(msgspec.Struct, omit_defaults=False):
    """What went wrong, and what would be right."""

    message: str
    type: str
    param: str | None
    code: str | None
    incident_id: str | msgspec.UnsetType = msgspec.UNSET
    tokens_emitted: int | msgspec.UnsetType = msgspec.UNSET
    resumable: bool | msgspec.UnsetType = msgspec.UNSET
    retry_after_s: float | msgspec.UnsetType = msgspec.UNSET


class ErrorBody(msgspec.Struct):
    """Every answer but a 2xx has this body."""

    error: ErrorDetail


class ModelCard(msgspec.Struct):
    """One served model."""

    id: str
    created: int
    owned_by: str
    max_model_len: int | None
    """Tokens of prompt and answer together; null while not known."""
    state: str
    """`ready`, `loading`, `recovering`, `failed`, `draining` or `unloaded`."""
    reason: str | None = None
    object: Literal["model"] = "model"


class ModelList(msgspec.Struct):
    """All served models."""

    data: list[ModelCard]
    object: Literal["list"] = "list"


class TokenizeAnswer(msgspec.Struct):
    """Ids of a text or a rendered chat."""

    count: int
    max_model_len: int | None
    tokens: list[int]
    token_strs: None = None


class DetokenizeAnswer(msgspec.Struct):
    """The text of ids."""

    prompt: str
