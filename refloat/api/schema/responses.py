"""The body of `/responses`, in OpenAI's shape."""

from typing import Any

import msgspec

from refloat.api.errors import invalid
from refloat.api.schema.chat import REASONING_EFFORTS, template_kwargs
from refloat.api.schema.checks import MAX_COUNT, Range, check_labels, check_metadata, check_ranges
from refloat.api.schema.decode import decode_value
from refloat.api.schema.forms import calls_wish, format_wish, strict_wish, wish_of
from refloat.api.schema.shared import StreamOptions, Wishes, check_model, check_wishes
from refloat.api.schema.tools import check_tool_count, plain_tool
from refloat.api.schema.unsupported import RESPONSES, check_supported, check_top_level
from refloat.wire.guide import GuideRequest

_RANGES = (
    Range("max_output_tokens", 1, MAX_COUNT),
    Range("temperature", 0, 2),
    Range("top_p", 0, 1),
    Range("request_timeout_s", 0, 86_400, above=True),
)


class ResponseTool(msgspec.Struct):
    """A declared function. Hosted tools (another type) are named in the refusal."""

    type: str
    name: str | None = None
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None


class ReasoningWish(msgspec.Struct):
    """How hard to think. Summaries are not made: the reasoning itself is told."""

    effort: str | None = None
    summary: str | None = None


class FunctionChoice(msgspec.Struct):
    """A choice given as an object."""

    type: str
    name: str | None = None


class TextWish(msgspec.Struct):
    """The form of the answer's text."""

    format: Any = None
    verbosity: Any = None


class ResponsesBody(Wishes, kw_only=True):
    """OpenAI's request for a response."""

    model: str
    input: str | list[Any]
    instructions: str | None = None
    tools: list[ResponseTool] | None = None
    tool_choice: Any = None
    parallel_tool_calls: bool | None = None
    text: TextWish | None = None
    reasoning: ReasoningWish | None = None
    max_output_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    metadata: dict[str, str] | None = None
    store: bool | None = None
    previous_response_id: str | None = None
    stream_options: StreamOptions | None = None
    user: str | None = None
    safety_identifier: str | None = None
    prompt_cache_key: str | None = None
    prompt_cache_options: Any = None
    prompt_cache_retention: Any = None
    background: Any = None
    conversation: Any = None
    context_management: Any = None
    include: Any = None
    max_tool_calls: Any = None
    moderation: Any = None
    prompt: Any = None
    service_tier: Any = None
    top_logprobs: Any = None
    truncation: Any = None


RESPONSES_DECODER = msgspec.json.Decoder(ResponsesBody)


def check_responses(body: ResponsesBody) -> None:
    """Everything but the input and the tools. Raises `ProblemError`."""
    check_model(body.model)
    check_top_level(RESPONSES, body)
    check_supported(RESPONSES, "top_logprobs", body.top_logprobs)
    check_ranges(body, _RANGES)
    check_wishes(body)
    check_labels(body, ("user", "safety_identifier", "prompt_cache_key"))
    check_metadata(body.metadata)
    if body.text is not None:
        check_supported(RESPONSES, "text.verbosity", body.text.verbosity)
    if body.stream_options is not None:
        field = "stream_options.include_obfuscation"
        check_supported(RESPONSES, field, body.stream_options.include_obfuscation)


def reasoning_kwargs(body: ResponsesBody) -> dict[str, Any]:
    """What the template is told of the effort. Raises `ProblemError`."""
    effort = body.reasoning.effort if body.reasoning is not None else None
    if effort not in (None, *REASONING_EFFORTS):
        message = f"reasoning.effort has to be one of {', '.join(REASONING_EFFORTS)}."
        raise invalid(message, "reasoning.effort")
    return template_kwargs(None, effort)


def checked_functions(body: ResponsesBody) -> list[dict[str, Any]] | None:
    """The tools as a template gets them; `None`: none, or none may be called. Raises `ProblemError`."""
    tools = body.tools or []
    check_tool_count(tools)
    plain = [_checked(tool, f"tools[{index}]") for index, tool in enumerate(tools)]
    return None if body.tool_choice == "none" else plain or None


def response_wish(body: ResponsesBody, tools: list[dict[str, Any]] | None) -> GuideRequest | None:
    """The form that the answer has to have. Raises `ProblemError`."""
    form = body.text.format if body.text is not None else None
    wish = wish_of(format_wish(form, "text.format"), _tool_wish(body, tools))
    return wish or strict_wish(tools, single=body.parallel_tool_calls is False)


def _tool_wish(body: ResponsesBody, tools: list[dict[str, Any]] | None) -> GuideRequest | None:
    choice, single = body.tool_choice, body.parallel_tool_calls is False
    if choice is None or choice in ("auto", "none"):
        return None
    if choice == "required":
        return calls_wish(tools, "tool_choice", named=None, single=single)
    if isinstance(choice, str):
        raise invalid("tool_choice has to be none, auto, required or an object.", "tool_choice")
    chosen = decode_value(choice, FunctionChoice, "tool_choice")
    check_supported(RESPONSES, "tool_choice.type", chosen.type)
    if chosen.name is None:
        raise invalid("Missing required field 'tool_choice.name'.", "tool_choice.name")
    return calls_wish(tools, "tool_choice", named=chosen.name, single=True)


def _checked(tool: ResponseTool, where: str) -> dict[str, Any]:
    check_supported(RESPONSES, "tools[].type", tool.type, f"{where}.type")
    return plain_tool(tool.name, tool.description, tool.parameters, tool.strict, where=where)
