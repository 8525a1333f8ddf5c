"""OpenAI's messages made into what chat templates expect. Pure: no template is rendered here."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, cast

from refloat.wire.problem import ProblemError, ProblemKind

Message = dict[str, Any]

#: What reasoning of earlier turns is called by clients, and by templates: most read the first, some
#: the second.
_THOUGHTS = ("reasoning_content", "thinking", "reasoning")
#: A system message for the tools' sake, in the words of Phi-4-mini's makers.
_FOR_TOOLS = "You are a helpful assistant with some tools."


class Traits(NamedTuple):
    """What one template wants, as far as templates differ. Found out by `traits.py`."""

    content_as_parts: bool = False
    """Content has to be a list of parts; otherwise it is a string."""
    knows_developer: bool = False
    arguments_as_text: bool = False
    """A call's arguments stay JSON text; otherwise they become a mapping."""
    null_beside_calls: bool = True
    """An assistant message of nothing but calls may have null content."""
    empty_beside_calls: bool = True
    """... and may have an empty string for content."""
    tools_in_system: bool = False
    """Tools are shown only as text that is a field of the system message."""


def normalised(messages: Sequence[Mapping[str, Any]], traits: Traits) -> list[Message]:
    """Messages as the template wants them. Raises `ProblemError` naming the message at fault."""
    _check_tool_results(messages)
    return [_message(message, f"messages[{n}]", traits) for n, message in enumerate(messages)]


def with_tools(messages: Sequence[Message], tools: Sequence[Mapping[str, Any]]) -> list[Message]:
    """The tools as a field of the system message, as JSON text; one is made if there is none."""
    shown = [tool.get("function", tool) for tool in tools]
    text = json.dumps(shown, ensure_ascii=False)
    system = messages[0] if messages and messages[0].get("role") == "system" else None
    rest = messages if system is None else messages[1:]
    return [{**(system or {"role": "system", "content": _FOR_TOOLS}), "tools": text}, *rest]


def merged(messages: Sequence[Message]) -> list[Message] | None:
    """Neighbours of one role made into one, for templates that insist on taking turns; `None` if
    there are none. Calls and tool results stay as they are."""
    result: list[Message] = []
    for message in messages:
        last = result[-1] if result else None
        if last is not None and _may_join(last, message):
            result[-1] = {**last, "content": _joined(last["content"], message["content"])}
        else:
            result.append(message)
    return result if len(result) < len(messages) else None


def text_parts(content: Any, param: str) -> list[str]:
    """The texts of a content, whatever form it has. Raises `ProblemError` for a part without text."""
    if content is None:
        return []
    if isinstance(content, str):
        return [content]
    texts: list[str] = []
    for number, part in enumerate(_list(content, param)):
        where = f"{param}[{number}]"
        fields = _object(part) or {}
        text = part if isinstance(part, str) else fields.get("text", fields.get("refusal"))
        if not isinstance(text, str):
            kind = fields.get("type", type(part).__name__)
            raise _invalid(f"{where} is of type {kind!r}; this model takes text only", where)
        texts.append(text)
    return texts


def _message(message: Mapping[str, Any], param: str, traits: Traits) -> Message:
    # JSON null means absent, for every field but one.
    result = {key: value for key, value in message.items() if value is not None}
    role = result.get("role")
    if role == "developer" and not traits.knows_developer:
        result["role"] = "system"
    calls = _list(result.get("tool_calls") or [], f"{param}.tool_calls")
    if not calls:
        result.pop("tool_calls", None)
    else:
        result["tool_calls"] = [
            _call(call, f"{param}.tool_calls[{n}]", traits) for n, call in enumerate(calls)
        ]
    result["content"] = _content(message.get("content"), f"{param}.content", traits, bool(calls))
    thoughts = next((result[name] for name in _THOUGHTS if name in result), None)
    if thoughts is not None:
        result = {"thinking": thoughts, **result, "reasoning_content": thoughts}
    return result


def _content(content: Any, param: str, traits: Traits, has_calls: bool) -> Any:
    texts = text_parts(content, param)
    if has_calls and not any(texts):
        prefers_null = content is None or not traits.empty_beside_calls
        return None if prefers_null and traits.null_beside_calls else ""
    if traits.content_as_parts:
        return [{"type": "text", "text": text} for text in texts]
    return "\n".join(texts)


def _call(value: Any, param: str, traits: Traits) -> Message:
    """A tool call with its arguments in the template's form. Text that is no JSON object stays."""
    call = _object(value) or {}
    function = _object(call.get("function"))
    if function is None:
        raise _invalid(f"{param}.function is missing", f"{param}.function")
    arguments = function.get("arguments")
    if not traits.arguments_as_text:
        arguments = _mapping(arguments)
    elif not isinstance(arguments, str):
        arguments = json.dumps(arguments or {}, ensure_ascii=False)
    elif arguments.strip() in ("", "null"):
        arguments = "{}"
    return {**call, "function": {**function, "arguments": arguments}}


def _mapping(arguments: Any) -> Any:
    if not isinstance(arguments, str):
        return {} if arguments is None else arguments
    if not arguments.strip():
        return {}
    try:
        value: Any = json.loads(arguments)
    except (ValueError, RecursionError):
        return arguments
    if value is None:
        return {}
    return arguments if _object(value) is None else value


def _check_tool_results(messages: Sequence[Mapping[str, Any]]) -> None:
    """Every tool result answers a call made before it."""
    called: set[str] = set()
    """Ids as they are written: nothing says that they are text."""
    was_called = False
    for number, message in enumerate(messages):
        param = f"messages[{number}]"
        calls = _list(message.get("tool_calls") or [], f"{param}.tool_calls")
        was_called |= bool(calls)
        called.update(repr((_object(call) or {}).get("id")) for call in calls)
        if message.get("role") != "tool":
            continue
        if not was_called:
            raise _invalid(f"{param} is a tool result, but no tool was called before it", param)
        wanted = message.get("tool_call_id")
        if wanted is not None and repr(wanted) not in called:
            param += ".tool_call_id"
            raise _invalid(f"{param} names no call of an earlier message", param)


def _may_join(first: Message, second: Message) -> bool:
    return (
        first.get("role") == second.get("role")
        and first.get("role") != "tool"
        and "tool_calls" not in first
        and "tool_calls" not in second
        and type(first["content"]) is type(second["content"])
    )


def _joined(first: Any, second: Any) -> Any:
    if not isinstance(first, str):
        return [*first, *second]
    return f"{first}\n\n{second}" if first and second else first or second


def _object(value: Any) -> dict[str, Any] | None:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else None


def _list(value: Any, param: str) -> list[Any]:
    if not isinstance(value, list):
        raise _invalid(f"{param} has the wrong type: {type(value).__name__}", param)
    return cast("list[Any]", value)


def _invalid(message: str, param: str) -> ProblemError:
    return ProblemError.of(ProblemKind.INVALID_REQUEST, message, param=param)
