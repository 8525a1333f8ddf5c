"""The shape of requests that has taken servers down in the field: an agent's turns.

A tiny request without tools, then three tool-calling turns over one growing conversation, each with
dozens of tool schemas and results that look like data: indented lines, ids, timestamps. The same text
as prose was far less harmful, so that is there too.
"""

import json
import random
from dataclasses import dataclass
from typing import Any

#: Prompt tokens of the three tool turns in the report, and the characters that make about one token.
_TURN_TOKENS = (12_000, 12_600, 14_300)
_CHARS_PER_TOKEN = 3.2
_TINY = (
    "A backup ended with exit code 0 after 312 seconds. Say in one sentence whether it went well. "
)
_ASK = "Which entry of the last result was changed last? Answer with its id."
_VERBS = (
    "read",
    "list",
    "search",
    "write",
    "move",
    "delete",
    "tag",
    "link",
    "plan",
    "count",
    "sync",
)
_NOUNS = ("file", "note", "task", "host", "event", "ticket")
_WORDS = (
    "the", "report", "says", "that", "every", "ship", "left", "harbour", "before", "rain", "and",
    "nobody", "on", "shore", "had", "seen", "its", "light", "until", "morning", "when", "a", "boat",
    "came", "back", "with", "letters", "for", "people", "who", "waited", "there",
)  # fmt: skip


@dataclass(frozen=True)
class Shape:
    """How large and of what kind."""

    scale: float = 1.0
    """Of the reported prompt lengths; a model with a shorter context needs less."""
    tools: int = 46
    is_prose: bool = False
    max_tokens: int = 200
    seed: int = 1


@dataclass(frozen=True)
class Turn:
    """One request of the round."""

    name: str
    body: dict[str, Any]
    """Without `model`."""


def turns(shape: Shape) -> list[Turn]:
    """One round: the tiny request, then the three turns."""
    chance = random.Random(shape.seed)
    tools = [_tool(chance, number) for number in range(shape.tools)]
    wanted = [int(tokens * shape.scale * _CHARS_PER_TOKEN) for tokens in _TURN_TOKENS]
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": "You are an agent that keeps an archive. Use the tools."},
        {"role": "user", "content": "Find out what changed in the archive since yesterday."},
    ]
    found = [Turn("tiny", _body([{"role": "user", "content": _TINY * 4}], shape))]
    for number, chars in enumerate(wanted, start=1):
        missing = chars - _size(messages) - _size(tools)
        messages = [*messages, *_round_trip(chance, tools, number, max(200, missing), shape)]
        asked = [*messages, {"role": "user", "content": _ASK}]
        found.append(Turn(f"turn {number}", {**_body(asked, shape), "tools": tools}))
    return found


def _body(messages: list[dict[str, Any]], shape: Shape) -> dict[str, Any]:
    return {
        "messages": messages,
        "stream": True,
        "stream_options": {"include_usage": True},
        "chat_template_kwargs": {"enable_thinking": False},
        "temperature": 0,
        "max_tokens": shape.max_tokens,
    }


def _round_trip(
    chance: random.Random, tools: list[dict[str, Any]], number: int, chars: int, shape: Shape
) -> list[dict[str, Any]]:
    """A tool call and its result, so long."""
    call = {
        "id": f"call_{number}",
        "type": "function",
        "function": {
            "name": tools[number % len(tools)]["function"]["name"] if tools else "list_notes",
            "arguments": json.dumps({"path": f"/archive/{number}", "limit": 50 * number}),
        },
    }
    result = _prose(chance, chars) if shape.is_prose else _data(chance, chars)
    return [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": call["id"], "content": result},
    ]


def _data(chance: random.Random, chars: int) -> str:
    """Indented lines with ids and timestamps: about a tenth punctuation, more digits than that."""
    lines: list[str] = []
    size = 0
    while size < chars:
        word, other = chance.choice(_NOUNS), chance.choice(_WORDS)
        line = (
            f"  - id: {word}-{chance.randrange(16**6):06x}\n"
            f"    changed: 2026-{chance.randrange(1, 13):02d}-{chance.randrange(1, 29):02d}"
            f"T{chance.randrange(24):02d}:{chance.randrange(60):02d}Z\n"
            f"    title: {other} {chance.choice(_WORDS)} {chance.choice(_WORDS)}, by {word} keeper"
        )
        lines.append(line)
        size += len(line) + 1
    return "entries:\n" + "\n".join(lines)


def _prose(chance: random.Random, chars: int) -> str:
    words: list[str] = []
    size = 0
    while size < chars:
        word = chance.choice(_WORDS)
        words.append(word)
        size += len(word) + 1
    return " ".join(words) + "."


def _tool(chance: random.Random, number: int) -> dict[str, Any]:
    noun = _NOUNS[number % len(_NOUNS)]
    verb = _VERBS[number // len(_NOUNS) % len(_VERBS)]
    return {
        "type": "function",
        "function": {
            "name": f"{verb}_{noun}" if number < len(_NOUNS) * len(_VERBS) else f"{verb}_{number}",
            "description": f"Can {verb} a {noun} of the archive. {_prose(chance, 160)}",
            "parameters": {
                "type": "object",
                "properties": {
                    "path": {"type": "string", "description": _prose(chance, 60)},
                    "limit": {"type": "integer", "minimum": 1, "maximum": 500},
                    "order": {"type": "string", "enum": ["newest", "oldest", "name"]},
                    "tags": {"type": "array", "items": {"type": "string"}},
                },
                "required": ["path"],
            },
        },
    }


def _size(value: Any) -> int:
    return len(json.dumps(value))
