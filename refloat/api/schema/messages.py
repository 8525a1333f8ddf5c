"""Chat messages: their shape, their order as far as it is everybody's, and what templates get."""

from typing import Any

import msgspec

from refloat.api.errors import invalid
from refloat.api.schema.decode import check_nesting
from refloat.api.schema.unsupported import CHAT, check_supported, unsupported

MAX_MESSAGES = 10_000
ROLES = ("system", "developer", "user", "assistant", "tool")


class ContentPart(msgspec.Struct):
    """One part of a message. Other types than text are named in the refusal."""

    type: str
    text: str | None = None
    refusal: str | None = None


class CalledFunction(msgspec.Struct):
    """What an earlier answer called."""

    name: str
    arguments: str
    """JSON, as far as the model managed it."""


class ToolCall(msgspec.Struct):
    """A call that an earlier answer made."""

    id: str
    function: CalledFunction | None = None
    type: str | None = None


class ChatMessage(msgspec.Struct):
    """One message of any role."""

    role: str
    content: str | list[ContentPart] | None = None
    name: str | None = None
    tool_calls: list[ToolCall] | None = None
    tool_call_id: str | None = None
    refusal: str | None = None
    reasoning_content: str | None = None
    """As servers of reasoning models return it; some templates use it."""
    reasoning: str | None = None
    """The same, as other servers call it."""
    audio: Any = None
    function_call: Any = None


def checked_messages(messages: list[ChatMessage]) -> list[dict[str, Any]]:
    """The messages as a template gets them. Raises `ProblemError` naming the first one at fault."""
    if not messages:
        raise invalid("messages must not be empty.", "messages")
    if len(messages) > MAX_MESSAGES:
        raise invalid(f"messages may have {MAX_MESSAGES} entries at most.", "messages")
    called: set[str] = set()
    return [_checked(message, index, called) for index, message in enumerate(messages)]


def _checked(message: ChatMessage, index: int, called: set[str]) -> dict[str, Any]:
    where = f"messages[{index}]"
    _check_role(message.role, f"{where}.role")
    check_supported(CHAT, "messages[].audio", message.audio, f"{where}.audio")
    check_supported(
        CHAT, "messages[].function_call", message.function_call, f"{where}.function_call"
    )
    plain: dict[str, Any] = {"role": message.role, "content": _text_of(message, where)}
    if message.name is not None:
        plain["name"] = message.name
    thoughts = message.reasoning_content or message.reasoning
    if thoughts is not None and message.role == "assistant":
        plain["reasoning_content"] = thoughts
    if message.tool_calls:
        plain["tool_calls"] = _checked_calls(message, where, called)
    if message.role == "tool":
        plain["tool_call_id"] = _answered_call(message, where, called)
    return plain


def _check_role(role: str, where: str) -> None:
    if role == "function":
        raise unsupported(CHAT, "messages[].role", where)
    if role not in ROLES:
        raise invalid(f"{where} has to be one of {', '.join(ROLES)}.", where)


def _text_of(message: ChatMessage, where: str) -> str | None:
    """The content as one string. Only an assistant that called tools may have said nothing at all."""
    content = message.content
    where = f"{where}.content"
    if isinstance(content, list):
        parts = [_part_text(part, f"{where}[{i}]") for i, part in enumerate(content)]
        if parts:
            return "\n".join(parts)
        content = None
    if content is not None:
        return content
    if message.role == "assistant":
        return message.refusal if not message.tool_calls and message.refusal else ""
    if message.role == "tool":
        return ""
    raise invalid(f"{where} is missing.", where)


def _part_text(part: ContentPart, where: str) -> str:
    check_supported(CHAT, "messages[].content[].type", part.type, where)
    text = part.refusal if part.type == "refusal" else part.text
    if text is None:
        raise invalid(f"{where}.{part.type} is missing.", f"{where}.{part.type}")
    return text


def _checked_calls(message: ChatMessage, where: str, called: set[str]) -> list[dict[str, Any]]:
    if message.role != "assistant":
        raise invalid(f"{where}: only an assistant calls tools.", f"{where}.tool_calls")
    calls: list[dict[str, Any]] = []
    for index, call in enumerate(message.tool_calls or ()):
        here = f"{where}.tool_calls[{index}]"
        check_supported(CHAT, "messages[].tool_calls[].type", call.type, f"{here}.type")
        if call.function is None:
            raise invalid(f"Missing required field '{here}.function'.", f"{here}.function")
        if not call.id:
            raise invalid(f"{here}.id must not be empty.", f"{here}.id")
        if call.id in called:
            message_text = f"{here}.id: {call.id[:64]!r} is the id of an earlier call already."
            raise invalid(message_text, f"{here}.id")
        called.add(call.id)
        check_arguments(call.function.arguments, f"{here}.function.arguments")
        function = {"name": call.function.name, "arguments": call.function.arguments}
        calls.append({"id": call.id, "type": "function", "function": function})
    return calls


def check_arguments(arguments: str, where: str) -> None:
    """Models write broken JSON at times and that is no reason to end a session; but its depth is."""
    try:
        value = msgspec.json.decode(arguments)
    except msgspec.DecodeError:
        return
    except RecursionError:
        raise invalid(f"{where} is nested too deeply.", where) from None
    check_nesting(value, where)


def _answered_call(message: ChatMessage, where: str, called: set[str]) -> str:
    where = f"{where}.tool_call_id"
    if message.tool_call_id is None:
        raise invalid(f"Missing required field {where!r}.", where)
    if message.tool_call_id not in called:
        text = f"{where}: no earlier message has a tool call {message.tool_call_id[:64]!r}."
        raise invalid(text, where)
    return message.tool_call_id
