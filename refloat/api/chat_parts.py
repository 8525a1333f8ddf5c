"""Reasoning and tool calls in the form of `/chat/completions`, as deltas and as a whole message."""

from typing import assert_never

import msgspec

from refloat.api.fold import FoldedChoice
from refloat.api.schema.answers import (
    AnswerCall,
    AnswerFunction,
    AnswerMessage,
    CallDelta,
    ChatDelta,
    FunctionDelta,
)
from refloat.generation.events import Parsed
from refloat.parsing.parts import CallArguments, CallBegin, CallEnd, Reasoning


def delta_of(event: Parsed) -> ChatDelta | None:
    """What a chunk says of a part; `None`: nothing, the end of a call is seen by what follows it."""
    match event.part:
        case Reasoning(text):
            return ChatDelta(reasoning_content=text)
        case CallBegin(call, call_id, name):
            function = FunctionDelta(name=name, arguments="")
            return ChatDelta(tool_calls=[CallDelta(call, call_id, "function", function)])
        case CallArguments(call, text):
            return ChatDelta(tool_calls=[CallDelta(call, function=FunctionDelta(arguments=text))])
        case CallEnd():
            return None
        case _:
            assert_never(event.part)


def message_of(choice: FoldedChoice) -> AnswerMessage:
    """A choice as one message."""
    calls = [
        AnswerCall(call.id, AnswerFunction(call.name, call.arguments)) for call in choice.calls
    ]
    text = choice.text
    return AnswerMessage(
        None if calls and not text else text,
        reasoning_content=choice.reasoning or msgspec.UNSET,
        tool_calls=calls or msgspec.UNSET,
    )
