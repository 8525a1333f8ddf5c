"""The bodies of `/tokenize` and `/detokenize`, in vLLM's shape."""

from typing import Any

import msgspec

from refloat.api.errors import invalid
from refloat.api.schema.chat import template_kwargs
from refloat.api.schema.checks import token_ids
from refloat.api.schema.messages import ChatMessage, checked_messages
from refloat.api.schema.shared import check_model
from refloat.api.schema.tools import Tool, checked_tools
from refloat.generation.request import ChatPrompt, Prompt, TextPrompt

#: A context of ten million tokens is more than any model has.
MAX_DETOKENIZE = 10_000_000


class TokenizeBody(msgspec.Struct, kw_only=True):
    """A text, or messages to be rendered first."""

    model: str
    prompt: str | None = None
    messages: list[ChatMessage] | None = None
    add_special_tokens: bool | None = None
    """For a text; default true. A rendered chat has its own."""
    add_generation_prompt: bool | None = None
    continue_final_message: bool | None = None
    tools: list[Tool] | None = None
    chat_template_kwargs: dict[str, Any] | None = None
    reasoning_effort: str | None = None


class DetokenizeBody(msgspec.Struct, kw_only=True):
    """Ids to be turned into text."""

    model: str
    tokens: list[int]
    skip_special_tokens: bool | None = None
    """Default false: what `/tokenize` gave comes back whole."""


TOKENIZE_DECODER = msgspec.json.Decoder(TokenizeBody)
DETOKENIZE_DECODER = msgspec.json.Decoder(DetokenizeBody)


def prompt_of(body: TokenizeBody) -> Prompt:
    """What is to be counted. Raises `ProblemError`."""
    check_model(body.model)
    if (body.prompt is None) == (body.messages is None):
        raise invalid("Give either prompt or messages.", "prompt")
    if body.messages is None:
        assert body.prompt is not None
        return TextPrompt(body.prompt, add_special_tokens=body.add_special_tokens is not False)
    continues = bool(body.continue_final_message)
    begins = body.add_generation_prompt if body.add_generation_prompt is not None else not continues
    return ChatPrompt(
        messages=checked_messages(body.messages),
        tools=checked_tools(body.tools, None),
        template_kwargs=template_kwargs(body.chat_template_kwargs, body.reasoning_effort),
        add_generation_prompt=begins,
        continue_final_message=continues,
    )


def ids_of(body: DetokenizeBody) -> tuple[int, ...]:
    """The ids, checked as far as possible without a vocabulary. Raises `ProblemError`."""
    check_model(body.model)
    if len(body.tokens) > MAX_DETOKENIZE:
        raise invalid(f"tokens may have {MAX_DETOKENIZE} entries at most.", "tokens")
    return token_ids(body.tokens, "tokens")
