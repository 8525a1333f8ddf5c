"""Chats as clients send them, each with something that templates differ in. Data only."""

import json
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

Message = dict[str, Any]


class Chat(NamedTuple):
    """One request for a rendering."""

    messages: list[Message]
    tools: list[dict[str, Any]] | None = None
    kwargs: Mapping[str, Any] = MappingProxyType({})
    continued: bool = False
    """The last message is to be continued."""


def _tool(name: str, description: str, properties: dict[str, Any]) -> dict[str, Any]:
    parameters = {"type": "object", "properties": properties, "required": list(properties)[:1]}
    function = {"name": name, "description": description, "parameters": parameters}
    return {"type": "function", "function": function}


TOOLS = [
    _tool(
        "get_weather",
        "Tells the weather of a city: 'now' & \"later\" <today>.",
        {
            "city": {"type": "string", "description": "Where, e.g. Zürich"},
            "unit": {"type": "string", "enum": ["celsius", "fahrenheit"], "default": "celsius"},
            "days": {"type": "array", "items": {"type": "integer"}, "description": "Which days"},
        },
    ),
    _tool(
        "search",
        "Searches.",
        {
            "query": {"type": "string"},
            "options": {
                "type": "object",
                "properties": {"limit": {"type": "integer"}, "exact": {"type": "boolean"}},
            },
        },
    ),
]


def _say(role: str, content: Any) -> Message:
    return {"role": role, "content": content}


def _call(number: int, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    # Ids of nine characters, since the Mistral family takes no others.
    function = {"name": name, "arguments": json.dumps(arguments, ensure_ascii=False)}
    return {"id": f"call0000{number}", "type": "function", "function": function}


def _called(content: str | None, *calls: dict[str, Any], **more: Any) -> Message:
    return {"role": "assistant", "content": content, "tool_calls": list(calls), **more}


def _result(number: int, name: str, content: Any) -> Message:
    call_id = f"call0000{number}"
    return {"role": "tool", "tool_call_id": call_id, "name": name, "content": content}


_SYSTEM = _say("system", "You are terse.\nSay no more than is asked.")
_ASK = _say("user", "What is the weather in Zürich?  <b>Now</b>")
_ZURICH = _call(1, "get_weather", {"city": "Zürich", "unit": "celsius", "days": [1, 2]})
_SEARCH = _call(2, "search", {"query": 'a "b" <c>\n{d}', "options": {"limit": 3, "exact": True}})
_SUNNY = _result(1, "get_weather", '{"sky": "sunny", "degrees": 21.5}')
_AGAIN = _say("user", "And tomorrow?")
_THOUGHT = "The user wants the weather.\nI have to ask for it."

CHATS: dict[str, Chat] = {
    "user": Chat([_say("user", "Hi")]),
    "system": Chat([_SYSTEM, _say("user", "Hi"), _say("assistant", "Hello!"), _AGAIN]),
    "tools": Chat([_SYSTEM, _ASK], TOOLS),
    "call": Chat([_ASK, _called("", _ZURICH), _SUNNY], TOOLS),
    "null beside a call": Chat([_SYSTEM, _ASK, _called(None, _ZURICH), _SUNNY], TOOLS),
    "text beside a call": Chat([_ASK, _called("Let me see.", _ZURICH), _SUNNY], TOOLS),
    "call answered": Chat(
        [_ASK, _called("", _ZURICH), _SUNNY, _say("assistant", "It is sunny."), _AGAIN], TOOLS
    ),
    "two calls": Chat(
        [_ASK, _called("", _ZURICH, _SEARCH), _SUNNY, _result(2, "search", "nothing")], TOOLS
    ),
    "call without arguments": Chat(
        [_ASK, _called("", _call(1, "search", {})), _result(1, "search", "ok")], TOOLS
    ),
    "parts": Chat(
        [
            _say("system", [{"type": "text", "text": "You are terse."}]),
            _say("user", [{"type": "text", "text": "What is this?"}]),
        ]
    ),
    "result in parts": Chat(
        [_ASK, _called("", _ZURICH), _result(1, "get_weather", [{"type": "text", "text": "sun"}])],
        TOOLS,
    ),
    "developer": Chat([_say("developer", "You are terse."), _say("user", "Hi")]),
    "continued": Chat([_ASK, _say("assistant", "The weather in Zürich is")], continued=True),
    "continued in a space": Chat([_ASK, _say("assistant", "It is, ")], continued=True),
    "continued part": Chat(
        [_say("user", "Hi"), _say("assistant", [{"type": "text", "text": "Hel"}])], continued=True
    ),
    "unicode": Chat([_SYSTEM, _say("user", "  日本 👩‍👩‍👧 <|im_end|> {{ x }} {% y %}\n\n ")]),
    "reasoning": Chat(
        [_ASK, _called("", _ZURICH, reasoning_content=_THOUGHT), _SUNNY],
        TOOLS,
    ),
    "reasoning answered": Chat(
        [
            _say("user", "Hi"),
            {"role": "assistant", "content": "Hello!", "reasoning_content": "A greeting."},
            _AGAIN,
        ]
    ),
    "thinking": Chat([_SYSTEM, _ASK], kwargs={"enable_thinking": True, "thinking": True}),
    "no thinking": Chat([_SYSTEM, _ASK], kwargs={"enable_thinking": False, "thinking": False}),
    "effort": Chat([_ASK], TOOLS, kwargs={"reasoning_effort": "low"}),
    "documents": Chat(
        [_ASK], kwargs={"documents": [{"title": "Zürich", "text": "A city.", "doc_id": 1}]}
    ),
}
