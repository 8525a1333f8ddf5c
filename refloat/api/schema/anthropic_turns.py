"""Anthropic's messages and what a template gets of them: blocks become text, calls and results."""

from typing import Any

import msgspec

from refloat.api.errors import invalid
from refloat.api.schema.anthropic import Block, CountBody, ResultBlock, TurnBody
from refloat.api.schema.decode import check_nesting
from refloat.api.schema.messages import MAX_MESSAGES
from refloat.api.schema.unsupported import MESSAGES, check_supported
from refloat.wire.problem import ProblemError

ROLES = ("user", "assistant", "system")

Message = dict[str, Any]


def checked_turns(body: CountBody) -> list[Message]:
    """System prompt and messages. Raises `ProblemError` naming the first block at fault."""
    if not body.messages:
        raise invalid("messages must not be empty.", "messages")
    if len(body.messages) > MAX_MESSAGES:
        raise invalid(f"messages may have {MAX_MESSAGES} entries at most.", "messages")
    result: list[Message] = []
    if body.system:
        result.append({"role": "system", "content": joined_text(body.system, "system")})
    called: set[str] = set()
    for index, turn in enumerate(body.messages):
        where = f"messages[{index}]"
        if turn.role == "assistant":
            result.append(_assistant(turn, where, called))
        elif turn.role in ROLES:
            result += _user(turn, where, called)
        else:
            raise invalid(f"{where}.role has to be one of {', '.join(ROLES)}.", f"{where}.role")
        if len(result) > MAX_MESSAGES + bool(body.system):  # each result is a message of its own
            message = f"{where}.content: messages and results may be {MAX_MESSAGES} at most."
            raise invalid(message, f"{where}.content")
    return result


def is_prefill(body: CountBody) -> bool:
    """Whether the answer goes on with the last message. Raises `ProblemError` where it cannot."""
    last = body.messages[-1]
    if last.role != "assistant":
        return False
    if isinstance(last.content, list) and any(b.type == "tool_use" for b in last.content):
        where = f"messages[{len(body.messages) - 1}]"
        message = f"{where}: a call has to be followed by a user's message with its tool_result."
        raise invalid(message, where)
    return True


def joined_text(content: str | list[ResultBlock], where: str) -> str:
    """Blocks of text as one. Raises `ProblemError` for others."""
    if isinstance(content, str):
        return content
    return "\n".join(_text(b.type, b.text, f"{where}[{i}]") for i, b in enumerate(content))


def _user(turn: TurnBody, where: str, called: set[str]) -> list[Message]:
    """Results go to messages of their own, in the order given."""
    if isinstance(turn.content, str):
        return [{"role": turn.role, "content": turn.content}]
    result: list[Message] = []
    texts: list[str] = []
    for index, block in enumerate(turn.content):
        here = f"{where}.content[{index}]"
        if block.type != "tool_result" or turn.role != "user":
            texts.append(_text(block.type, block.text, here))
            continue
        if texts:
            result.append({"role": turn.role, "content": "\n".join(texts)})
            texts = []
        result.append(_result(block, here, called))
    if texts or not result:
        result.append({"role": turn.role, "content": "\n".join(texts)})
    return result


def _assistant(turn: TurnBody, where: str, called: set[str]) -> Message:
    if isinstance(turn.content, str):
        return {"role": "assistant", "content": turn.content}
    texts: list[str] = []
    thoughts: list[str] = []
    calls: list[Message] = []
    for index, block in enumerate(turn.content):
        here = f"{where}.content[{index}]"
        if block.type == "tool_use":
            calls.append(_call(block, here, called))
        elif block.type == "thinking":
            thoughts.append(block.thinking or "")
        elif block.type != "redacted_thinking":  # nobody but its author can read it
            texts.append(_text(block.type, block.text, here))
    message: Message = {"role": "assistant", "content": "\n".join(texts)}
    if thoughts:
        message["reasoning_content"] = "\n".join(thoughts)
    if calls:
        message["tool_calls"] = calls
    return message


def _text(kind: str, text: str | None, where: str) -> str:
    check_supported(MESSAGES, "messages[].content[].type", kind, f"{where}.type")
    if text is None:
        raise _missing(f"{where}.text")
    return text


def _call(block: Block, where: str, called: set[str]) -> Message:
    if not block.id:
        raise _missing(f"{where}.id")
    if not block.name:
        raise _missing(f"{where}.name")
    if block.id in called:
        message = f"{where}.id: {block.id[:64]!r} is the id of an earlier call already."
        raise invalid(message, f"{where}.id")
    called.add(block.id)
    given = block.input or {}
    check_nesting(given, f"{where}.input")
    function = {"name": block.name, "arguments": msgspec.json.encode(given).decode()}
    return {"id": block.id, "type": "function", "function": function}


def _result(block: Block, where: str, called: set[str]) -> Message:
    if block.tool_use_id is None:
        raise _missing(f"{where}.tool_use_id")
    if block.tool_use_id not in called:
        message = (
            f"{where}.tool_use_id: no earlier message has a tool_use {block.tool_use_id[:64]!r}."
        )
        raise invalid(message, f"{where}.tool_use_id")
    try:
        content = msgspec.convert(block.content or "", str | list[ResultBlock])
    except msgspec.ValidationError:
        message = f"{where}.content has to be text or a list of blocks."
        raise invalid(message, f"{where}.content") from None
    text = joined_text(content, f"{where}.content")
    return {"role": "tool", "tool_call_id": block.tool_use_id, "content": text}


def _missing(param: str) -> ProblemError:
    return invalid(f"Missing required field {param!r}.", param)
