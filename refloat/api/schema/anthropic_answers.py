"""Anthropic's answers and events, as structs: what is encoded is what `/openapi.json` documents."""

from typing import Any, Literal

import msgspec


class TextBlock(msgspec.Struct, tag="text"):
    """Text of the answer."""

    text: str
    citations: None = None


class ThinkingBlock(msgspec.Struct, tag="thinking"):
    """What the model thought. Nobody signs it here."""

    thinking: str
    signature: str = ""


class ToolUseBlock(msgspec.Struct, tag="tool_use"):
    """A call to a tool."""

    id: str
    name: str
    input: dict[str, Any]


AnswerBlock = TextBlock | ThinkingBlock | ToolUseBlock


class MessageUsage(msgspec.Struct):
    """Tokens. The prompt has `input_tokens` and those that were cached, together."""

    input_tokens: int
    output_tokens: int
    cache_read_input_tokens: int = 0
    cache_creation_input_tokens: int = 0


class MessageAnswer(msgspec.Struct):
    """A whole answer. `stop_reason` is null in the event that begins a stream."""

    id: str
    model: str
    content: list[AnswerBlock]
    stop_reason: str | None
    stop_sequence: str | None
    usage: MessageUsage
    type: Literal["message"] = "message"
    role: Literal["assistant"] = "assistant"


class MessageStart(msgspec.Struct, tag="message_start"):
    """Begins a stream."""

    message: MessageAnswer


class BlockStart(msgspec.Struct, tag="content_block_start"):
    """Begins a block."""

    index: int
    content_block: AnswerBlock


class TextDelta(msgspec.Struct, tag="text_delta"):
    """More of a text."""

    text: str


class ThinkingDelta(msgspec.Struct, tag="thinking_delta"):
    """More of what is thought."""

    thinking: str


class InputDelta(msgspec.Struct, tag="input_json_delta"):
    """More of a call's input, as JSON text."""

    partial_json: str


class BlockDelta(msgspec.Struct, tag="content_block_delta"):
    """More of a block."""

    index: int
    delta: TextDelta | ThinkingDelta | InputDelta


class BlockStop(msgspec.Struct, tag="content_block_stop"):
    """Ends a block."""

    index: int


class Ending(msgspec.Struct):
    """Why the answer ended."""

    stop_reason: str
    stop_sequence: str | None


class MessageDelta(msgspec.Struct, tag="message_delta"):
    """Says why the answer ended, and what it cost."""

    delta: Ending
    usage: MessageUsage


class MessageStop(msgspec.Struct, tag="message_stop"):
    """Ends a stream."""


class Ping(msgspec.Struct, tag="ping"):
    """Keeps a stream alive."""


MessageEvent = (
    MessageStart | BlockStart | BlockDelta | BlockStop | MessageDelta | MessageStop | Ping
)


class TokenCount(msgspec.Struct):
    """Tokens of a prompt."""

    input_tokens: int


class AnthropicError(msgspec.Struct):
    """What went wrong, and what would be right."""

    type: str
    message: str
    param: str | msgspec.UnsetType = msgspec.UNSET
    code: str | msgspec.UnsetType = msgspec.UNSET


class AnthropicErrorBody(msgspec.Struct, tag="error"):
    """Every answer of these routes but a 2xx has this body."""

    error: AnthropicError
