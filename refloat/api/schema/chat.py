"""The body of `/chat/completions`."""

from typing import Any

import msgspec

from refloat.api.errors import invalid
from refloat.api.schema.checks import MAX_COUNT, Range, check_labels, check_ranges
from refloat.api.schema.decode import check_free_form
from refloat.api.schema.forms import format_wish, guided_wish, strict_wish, wish_of
from refloat.api.schema.messages import ChatMessage, checked_messages
from refloat.api.schema.shared import GenerationBody, check_shared
from refloat.api.schema.tools import Tool, ToolChoice, checked_tools, tool_wish
from refloat.api.schema.unsupported import CHAT, check_supported
from refloat.generation.request import ChatPrompt
from refloat.wire.guide import GuideRequest

MAX_TEMPLATE_KWARGS = 64
#: What a template gets from us; a caller's argument of that name would be a way around the checks.
RESERVED_TEMPLATE_KWARGS = frozenset(
    (
        *("messages", "tools", "documents", "add_generation_prompt", "continue_final_message"),
        *("chat_template", "tokenize", "bos_token", "eos_token", "pad_token", "unk_token"),
        *("raise_exception", "strftime_now"),
    )
)
REASONING_EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")

_RANGES = (
    Range("max_completion_tokens", 1, MAX_COUNT),
    Range("top_logprobs", 0, 20),
)


class ChatBody(GenerationBody, kw_only=True):
    """OpenAI's chat request and vLLM's extra fields."""

    messages: list[ChatMessage]
    max_completion_tokens: int | None = None
    logprobs: bool | None = None
    top_logprobs: int | None = None
    tools: list[Tool] | None = None
    tool_choice: str | ToolChoice | None = None
    parallel_tool_calls: bool | None = None
    reasoning_effort: str | None = None
    chat_template_kwargs: dict[str, Any] | None = None
    add_generation_prompt: bool | None = None
    continue_final_message: bool | None = None
    prompt_cache_key: str | None = None
    safety_identifier: str | None = None
    store: Any = None
    service_tier: Any = None
    modalities: Any = None
    audio: Any = None
    prediction: Any = None
    web_search_options: Any = None
    moderation: Any = None
    verbosity: Any = None
    prompt_cache_options: Any = None
    prompt_cache_retention: Any = None
    response_format: Any = None
    functions: Any = None
    function_call: Any = None


CHAT_DECODER = msgspec.json.Decoder(ChatBody)


def check_chat(body: ChatBody) -> None:
    """Everything that can be known of the body without a model, but its prompt. Raises
    `ProblemError`."""
    check_shared(CHAT, body)
    check_ranges(body, _RANGES)
    check_labels(body, ("prompt_cache_key", "safety_identifier"))
    check_supported(CHAT, "top_logprobs", body.top_logprobs)
    if body.top_logprobs and not body.logprobs:
        raise invalid("top_logprobs needs logprobs: true.", "top_logprobs")


def chat_prompt(body: ChatBody) -> ChatPrompt:
    """The prompt as prep gets it. Raises `ProblemError`."""
    continues = bool(body.continue_final_message)
    begins = body.add_generation_prompt if body.add_generation_prompt is not None else not continues
    if continues and begins:
        message = "continue_final_message and add_generation_prompt exclude each other."
        raise invalid(message, "continue_final_message")
    return ChatPrompt(
        messages=checked_messages(body.messages),
        tools=checked_tools(body.tools, body.tool_choice),
        template_kwargs=template_kwargs(body.chat_template_kwargs, body.reasoning_effort),
        add_generation_prompt=begins,
        continue_final_message=continues,
        single_call=body.parallel_tool_calls is False,
    )


def chat_wish(body: ChatBody, prompt: ChatPrompt) -> GuideRequest | None:
    """The form that the answer has to have. Raises `ProblemError`."""
    wish = wish_of(
        format_wish(body.response_format, "response_format", is_nested=True),
        guided_wish(body),
        tool_wish(body.tool_choice, prompt.tools, single=prompt.single_call),
    )
    return wish or strict_wish(prompt.tools, single=prompt.single_call)


def template_kwargs(given: dict[str, Any] | None, effort: str | None) -> dict[str, Any]:
    """Arguments for the template: the effort, and over it what the caller says in so many words.

    Raises `ProblemError`.
    """
    kwargs: dict[str, Any] = {}
    if effort is not None:
        if effort not in REASONING_EFFORTS:
            message = f"reasoning_effort has to be one of {', '.join(REASONING_EFFORTS)}."
            raise invalid(message, "reasoning_effort")
        kwargs["reasoning_effort"] = effort
        # templates call the switch one or the other
        kwargs["enable_thinking"] = kwargs["thinking"] = effort != "none"
    if given is None:
        return kwargs
    if len(given) > MAX_TEMPLATE_KWARGS:
        message = f"chat_template_kwargs may have {MAX_TEMPLATE_KWARGS} entries at most."
        raise invalid(message, "chat_template_kwargs")
    for name in given:
        param = f"chat_template_kwargs.{name[:64]}"
        if name in RESERVED_TEMPLATE_KWARGS:
            raise invalid(f"{param} is set by the server and cannot be overridden.", param)
        if not name.isidentifier():
            raise invalid(f"{param} is not a name.", "chat_template_kwargs")
    check_free_form(given, "chat_template_kwargs")
    return {**kwargs, **given}
