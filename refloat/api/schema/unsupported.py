"""OpenAI's documented fields that this server cannot honour yet, in one table.

Such a field at a neutral value asks for nothing and passes; at any other it is refused, since silence
would be a lie. `docs/API.md` is checked against this table.
"""

from typing import Any, NamedTuple

import msgspec

from refloat.wire.problem import ProblemError, ProblemKind

CHAT = "chat/completions"
COMPLETIONS = "completions"
MESSAGES = "messages"
RESPONSES = "responses"
_BOTH = (CHAT, COMPLETIONS)


class Unsupported(NamedTuple):
    """One field, where it occurs, and what of it can be taken."""

    field: str
    """In the caller's spelling; `[]` stands for any index."""
    routes: tuple[str, ...]
    neutral: tuple[Any, ...]
    """Beside null and absence."""
    says: str
    """What is not there."""


UNSUPPORTED: tuple[Unsupported, ...] = (
    Unsupported("logit_bias", _BOTH, ({},), "biasing tokens"),
    Unsupported("stream_options.include_obfuscation", _BOTH, (False,), "padding of chunks"),
    Unsupported("store", (CHAT,), (False,), "storing answers"),
    Unsupported("service_tier", (CHAT,), ("auto", "default"), "service tiers"),
    Unsupported("modalities", (CHAT,), (["text"],), "output other than text"),
    Unsupported("audio", (CHAT,), (), "audio output"),
    Unsupported("prediction", (CHAT,), (), "predicted outputs"),
    Unsupported("web_search_options", (CHAT,), (), "web search"),
    Unsupported("moderation", (CHAT,), (), "moderation"),
    Unsupported("verbosity", (CHAT,), ("medium",), "control of verbosity"),
    Unsupported("prompt_cache_options", (CHAT,), ({"mode": "implicit"},), "control of the cache"),
    Unsupported("prompt_cache_retention", (CHAT,), ("in_memory",), "a cache on disk"),
    Unsupported("functions", (CHAT,), ([],), "the deprecated functions (use tools)"),
    Unsupported("function_call", (CHAT,), ("none", "auto"), "the deprecated function_call"),
    Unsupported(
        "tool_choice.type", (CHAT, RESPONSES), ("function",), "a choice among some tools, or others"
    ),
    Unsupported("tools[].type", (CHAT,), ("function",), "tools other than functions"),
    Unsupported("messages[].role", (CHAT,), (), "the deprecated role function (use tool)"),
    Unsupported("messages[].audio", (CHAT,), (), "audio of earlier answers"),
    Unsupported("messages[].function_call", (CHAT,), (), "the deprecated function_call"),
    Unsupported("messages[].content[].type", (CHAT,), ("text", "refusal"), "content but text"),
    Unsupported("messages[].tool_calls[].type", (CHAT,), ("function",), "calls but of functions"),
    Unsupported("top_logprobs", (CHAT,), (0, 1), "alternatives to the chosen token"),
    Unsupported("logprobs", (COMPLETIONS,), (0, 1), "alternatives to the chosen token"),
    Unsupported("echo", (COMPLETIONS,), (False,), "log-probabilities of the prompt (with echo)"),
    Unsupported("suffix", (COMPLETIONS,), ("",), "text after an insertion"),
    Unsupported("messages[].content[].type", (MESSAGES,), ("text",), "content but text"),
    Unsupported("tools[].type", (MESSAGES,), ("custom",), "tools that the server runs"),
    Unsupported("mcp_servers", (MESSAGES,), ([],), "tools that the server runs"),
    Unsupported("container", (MESSAGES,), (), "tools that the server runs"),
    Unsupported(
        "context_management",
        (MESSAGES,),
        ({}, {"edits": []}, {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]}),
        "leaving out parts of the conversation",
    ),
    Unsupported("background", (RESPONSES,), (False,), "answers in the background"),
    Unsupported("conversation", (RESPONSES,), (), "conversations (use previous_response_id)"),
    Unsupported("context_management", (RESPONSES,), ([],), "leaving out parts of the conversation"),
    Unsupported("include", (RESPONSES,), ([], ["reasoning.encrypted_content"]), "more output"),
    Unsupported("max_tool_calls", (RESPONSES,), (), "tools that the server runs"),
    Unsupported("moderation", (RESPONSES,), (), "moderation"),
    Unsupported("prompt", (RESPONSES,), (), "stored prompts"),
    Unsupported("service_tier", (RESPONSES,), ("auto", "default"), "service tiers"),
    Unsupported("truncation", (RESPONSES,), ("disabled",), "leaving out parts of the conversation"),
    Unsupported("top_logprobs", (RESPONSES,), (0,), "log-probabilities"),
    Unsupported(
        "prompt_cache_options", (RESPONSES,), ({"mode": "implicit"},), "control of the cache"
    ),
    Unsupported("prompt_cache_retention", (RESPONSES,), ("in_memory",), "a cache on disk"),
    Unsupported("stream_options.include_obfuscation", (RESPONSES,), (False,), "padding of events"),
    Unsupported("text.verbosity", (RESPONSES,), ("medium",), "control of verbosity"),
    Unsupported("tools[].type", (RESPONSES,), ("function",), "tools other than functions"),
    Unsupported(
        "input[].type",
        (RESPONSES,),
        ("message", "reasoning", "function_call", "function_call_output"),
        "such items",
    ),
    Unsupported(
        "input[].content[].type",
        (RESPONSES,),
        ("input_text", "output_text", "refusal"),
        "content but text",
    ),
)

#: Documented fields that pass and whose effect is as said here.
HINTS: dict[str, str] = {
    "parallel_tool_calls": "false: the answer ends with its first tool call",
    "tools[].function.strict": "true: whatever the model calls, arguments are held to their schema; so "
    "they are without it where a call is required, or where the answer has to have a form",
    "prompt_cache_key": "accepted; prefixes are shared without it",
    "safety_identifier": "accepted; not used",
    "user": "accepted; not used",
    "metadata": "accepted; not stored",
    "messages[].name": "passed to the chat template",
    "reasoning_effort": "passed to the chat template, with its switch for thinking off for none and "
    "on for the others; refused where the template has no use for it",
}

_ROWS = {(route, row.field): row for row in UNSUPPORTED for route in row.routes}


def unsupported(route: str, field: str, param: str | None = None) -> ProblemError:
    """The refusal of a field of the table."""
    row = _ROWS[route, field]
    where = param or field
    message = f"{where}: this server does not support {row.says} yet{_allowed(row)}."
    return ProblemError.of(ProblemKind.UNSUPPORTED_VALUE, message, param=where)


def check_supported(route: str, field: str, value: Any, param: str | None = None) -> None:
    """Refuse a value that asks for what is not there. Raises `ProblemError`."""
    if value is None or any(_same(value, neutral) for neutral in _ROWS[route, field].neutral):
        return
    raise unsupported(route, field, param)


def check_top_level(route: str, body: msgspec.Struct) -> None:
    """Apply all rows that are plain fields of a body. Raises `ProblemError`."""
    for row_route, field in _ROWS:
        if row_route == route and field in _PLAIN:
            check_supported(route, field, getattr(body, field))


#: Fields with no rule but the table's; the others are checked where their own rules are.
_PLAIN = frozenset(
    (
        *("logit_bias", "store", "service_tier", "modalities", "audio", "prediction"),
        *("web_search_options", "moderation", "verbosity", "prompt_cache_options"),
        *("prompt_cache_retention", "functions", "function_call", "suffix"),
        *("mcp_servers", "container", "context_management", "background", "conversation"),
        *("include", "max_tool_calls", "prompt", "truncation"),
    )
)


def _same(value: Any, neutral: Any) -> bool:
    return type(value) is type(neutral) and value == neutral


def _allowed(row: Unsupported) -> str:
    if not row.neutral:
        return ""
    values = ", ".join(msgspec.json.encode(value).decode() for value in row.neutral)
    return f" (it takes null, {values})"
