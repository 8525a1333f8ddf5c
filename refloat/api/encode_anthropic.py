"""Events in the form of `/messages`: Anthropic's events, or one message."""

from typing import Any, assert_never, cast

import msgspec

from refloat.api.context import SessionPort
from refloat.api.encoder import WAITING, answer_id, encode_text, named_sse
from refloat.api.errors import anthropic_error_body
from refloat.api.fold import Fold, FoldedCall, FoldedReasoning, FoldedText, Stretch
from refloat.api.schema.anthropic_answers import (
    AnswerBlock,
    BlockDelta,
    BlockStart,
    BlockStop,
    Ending,
    InputDelta,
    MessageAnswer,
    MessageDelta,
    MessageEvent,
    MessageStart,
    MessageStop,
    MessageUsage,
    Ping,
    TextBlock,
    ThinkingBlock,
    ThinkingDelta,
    ToolUseBlock,
)
from refloat.api.translate import Order
from refloat.generation.events import ChoiceEnd, Delta, FinishReason, Parsed, Usage
from refloat.parsing.parts import CallArguments, CallBegin, CallEnd, Reasoning
from refloat.wire.problem import Problem

_encode = msgspec.json.Encoder().encode


class MessagesEncoder:
    """One message. Numbers its blocks, so it has to see every event."""

    done = b""

    def __init__(self, session: SessionPort, order: Order) -> None:
        self.answer_id = answer_id("msg_", session.stream_id)
        self._model = session.model
        self._prompt_tokens = session.prompt_tokens
        self._has_begun = False
        self._blocks = 0
        self._open: type[AnswerBlock] | None = None
        self._text_head = b""
        self._ending: Ending | None = None

    @property
    def waiting(self) -> bytes:
        """A ping; a mere comment before `message_start`, which comes first."""
        return _event(Ping()) if self._has_begun else WAITING

    def opening(self) -> bytes:
        """Whose message it is, and how long its prompt was."""
        self._has_begun = True
        usage = MessageUsage(self._prompt_tokens, 0)
        return _event(MessageStart(self._message([], None, None, usage)))

    def delta(self, event: Delta) -> bytes:
        """Text, in the block that is open or a new one."""
        if not event.text:
            return b""
        begun = b"" if self._open is TextBlock else self._begin(TextBlock(""))
        return begun + self._text_head + encode_text(event.text) + b"}}\n\n"

    def part(self, event: Parsed) -> bytes:
        """Thinking, or something of a call."""
        match event.part:
            case Reasoning(text):
                if not text:
                    return b""
                begun = b"" if self._open is ThinkingBlock else self._begin(ThinkingBlock(""))
                return begun + _event(BlockDelta(self._blocks - 1, ThinkingDelta(text)))
            case CallBegin(_, call_id, name):
                return self._begin(ToolUseBlock(call_id, name, {}))
            case CallArguments(_, text):
                return _event(BlockDelta(self._blocks - 1, InputDelta(text)))
            case CallEnd():
                return self._end_block()
            case _:
                assert_never(event.part)

    def end(self, event: ChoiceEnd) -> bytes:
        """Ends the last block; why the answer ended is told together with its cost."""
        self._ending = _ending(event.reason, event.stop)
        return self._end_block()

    def closing(self, usage: Usage) -> bytes:
        """The last two events."""
        assert self._ending is not None
        told = MessageDelta(self._ending, _usage(usage))
        return _event(told) + _event(MessageStop())

    def failure(self, problem: Problem) -> bytes:
        """The error's body as an event."""
        return named_sse("error", anthropic_error_body(problem))

    def whole(self, fold: Fold, usage: Usage) -> bytes:
        """One message."""
        [choice] = fold.choices
        assert choice.reason is not None
        ending = _ending(choice.reason, choice.stop)
        blocks = [_block(stretch) for stretch in choice.stretches]
        reason, sequence = ending.stop_reason, ending.stop_sequence
        return _encode(self._message(blocks, reason, sequence, _usage(usage)))

    def _message(
        self, content: list[AnswerBlock], reason: str | None, stop: str | None, usage: MessageUsage
    ) -> MessageAnswer:
        return MessageAnswer(self.answer_id, self._model, content, reason, stop, usage)

    def _begin(self, block: AnswerBlock) -> bytes:
        ended = self._end_block()
        index, self._open = self._blocks, type(block)
        self._blocks += 1
        if isinstance(block, TextBlock):
            head = b'event: content_block_delta\ndata: {"type":"content_block_delta","index":%d,'
            self._text_head = head % index + b'"delta":{"type":"text_delta","text":'
        return ended + _event(BlockStart(index, block))

    def _end_block(self) -> bytes:
        if self._open is None:
            return b""
        self._open = None
        return _event(BlockStop(self._blocks - 1))


def _event(value: MessageEvent) -> bytes:
    return named_sse(cast("str", value.__struct_config__.tag), value)


def _usage(usage: Usage) -> MessageUsage:
    cached = min(usage.cached_tokens, usage.prompt_tokens)
    return MessageUsage(usage.prompt_tokens - cached, usage.completion_tokens, cached)


def _ending(reason: FinishReason, stop: str | None) -> Ending:
    match reason:
        case FinishReason.LENGTH:
            return Ending("max_tokens", None)
        case FinishReason.TOOL_CALLS:
            return Ending("tool_use", None)
        case FinishReason.STOP:
            return Ending("end_turn" if stop is None else "stop_sequence", stop)
        case _:
            assert_never(reason)


def _block(stretch: Stretch) -> AnswerBlock:
    match stretch:
        case FoldedText():
            return TextBlock(stretch.text)
        case FoldedReasoning():
            return ThinkingBlock(stretch.text)
        case FoldedCall():
            return ToolUseBlock(stretch.id, stretch.name, _input(stretch.arguments))
        case _:
            assert_never(stretch)


def _input(arguments: str) -> dict[str, Any]:
    """The object; an empty one where a limit cut it, since half an object is none."""
    try:
        return msgspec.json.decode(arguments, type=dict[str, Any])
    except msgspec.DecodeError:
        return {}
