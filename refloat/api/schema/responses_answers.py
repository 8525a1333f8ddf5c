"""Answers and events of `/responses`, as structs: what is encoded is what `/openapi.json` documents."""

from typing import Any, Literal

import msgspec


class OutputText(msgspec.Struct, tag="output_text"):
    """Text of the answer."""

    text: str
    annotations: list[Any] = []
    logprobs: list[Any] = []


class ReasoningText(msgspec.Struct, tag="reasoning_text"):
    """What the model thought."""

    text: str


class MessageItem(msgspec.Struct, tag="message"):
    """What the model said."""

    id: str
    status: str
    content: list[OutputText]
    role: Literal["assistant"] = "assistant"


class ReasoningItem(msgspec.Struct, tag="reasoning"):
    """What it thought, in its own words; nobody sums it up here."""

    id: str
    status: str
    content: list[ReasoningText]
    summary: list[Any] = []


class CallItem(msgspec.Struct, tag="function_call"):
    """A call to a function."""

    id: str
    call_id: str
    name: str
    arguments: str
    """JSON, as far as the model managed it."""
    status: str


OutputItem = MessageItem | ReasoningItem | CallItem


class InputDetails(msgspec.Struct):
    """Of the input's tokens."""

    cached_tokens: int
    cache_write_tokens: int = 0


class OutputDetails(msgspec.Struct):
    """Of the output's tokens."""

    reasoning_tokens: int = 0


class ResponseUsage(msgspec.Struct):
    """Tokens."""

    input_tokens: int
    input_tokens_details: InputDetails
    output_tokens: int
    output_tokens_details: OutputDetails
    total_tokens: int


class ResponseFault(msgspec.Struct):
    """Why there is no answer."""

    code: str
    message: str


class Incomplete(msgspec.Struct):
    """Why the answer is not whole."""

    reason: str


class ResponseAnswer(msgspec.Struct, kw_only=True):
    """A response, under way or ended."""

    id: str
    created_at: int
    completed_at: int | None = None
    status: str
    """`in_progress`, `completed`, `incomplete`, `failed` or `cancelled`."""
    model: str
    output: list[OutputItem]
    error: ResponseFault | None = None
    incomplete_details: Incomplete | None = None
    usage: ResponseUsage | None = None
    instructions: str | None = None
    previous_response_id: str | None = None
    max_output_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    tools: list[Any] = []
    tool_choice: str = "auto"
    parallel_tool_calls: bool = True
    reasoning: Any = None
    text: dict[str, Any] = msgspec.field(default_factory=lambda: {"format": {"type": "text"}})
    metadata: dict[str, str] = {}
    store: bool = True
    background: bool = False
    truncation: str = "disabled"
    user: str | None = None
    object: Literal["response"] = "response"


class ResponseEvent(msgspec.Struct, kw_only=True, omit_defaults=True):
    """One event of a stream. Which fields it has depends on its type."""

    type: str
    sequence_number: int
    response: ResponseAnswer | None = None
    output_index: int | msgspec.UnsetType = msgspec.UNSET
    item_id: str | None = None
    item: OutputItem | None = None
    content_index: int | msgspec.UnsetType = msgspec.UNSET
    part: OutputText | ReasoningText | None = None
    delta: str | None = None
    text: str | None = None
    name: str | None = None
    arguments: str | None = None
    logprobs: list[Any] | None = None


class ResponseDeleted(msgspec.Struct):
    """It is gone."""

    id: str
    object: Literal["response"] = "response"
    deleted: bool = True
