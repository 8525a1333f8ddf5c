"""The bodies of `/messages` and `/messages/count_tokens`, in Anthropic's shape."""

from typing import Any

import msgspec

from refloat.api.errors import invalid
from refloat.api.schema.checks import MAX_COUNT, Range, check_labels, check_ranges
from refloat.api.schema.forms import calls_wish, format_wish, strict_wish, wish_of
from refloat.api.schema.shared import Wishes, check_model, check_wishes
from refloat.api.schema.tools import check_tool_count, plain_tool
from refloat.api.schema.unsupported import MESSAGES, check_supported, check_top_level
from refloat.wire.guide import GuideRequest

_RANGES = (
    Range("max_tokens", 1, MAX_COUNT),
    Range("temperature", 0, 2),
    Range("top_p", 0, 1),
    Range("top_k", 0, MAX_COUNT),
    Range("request_timeout_s", 0, 86_400, above=True),
)
_EFFORTS = ("low", "medium", "high", "xhigh", "max")


class ResultBlock(msgspec.Struct):
    """A part of what a tool gave, or of the system prompt."""

    type: str
    text: str | None = None


class Block(msgspec.Struct):
    """A part of a message. Which fields it needs depends on its type."""

    type: str
    text: str | None = None
    thinking: str | None = None
    id: str | None = None
    name: str | None = None
    input: dict[str, Any] | None = None
    tool_use_id: str | None = None
    content: Any = None
    """Of a tool's result: text, or blocks of text. Other types have what they like here."""


class TurnBody(msgspec.Struct):
    """One message."""

    role: str
    content: str | list[Block]


class AnthropicTool(msgspec.Struct):
    """A declared tool. Server tools (another type than custom) are named in the refusal."""

    name: str
    type: str | None = None
    description: str | None = None
    input_schema: dict[str, Any] | None = None
    strict: bool | None = None


class AnthropicChoice(msgspec.Struct):
    """The choice among the tools."""

    type: str
    name: str | None = None
    disable_parallel_tool_use: bool | None = None


class Thinking(msgspec.Struct):
    """Whether the model is to think in words."""

    type: str


class OutputConfig(msgspec.Struct):
    """How hard to try, and in what form."""

    effort: str | None = None
    format: Any = None


class CallerMetadata(msgspec.Struct):
    """Who asks, in the client's own words."""

    user_id: str | None = None


class CountBody(Wishes, kw_only=True):
    """What a prompt is made of. Unknown fields are ignored, `cache_control` among them."""

    model: str
    messages: list[TurnBody]
    system: str | list[ResultBlock] | None = None
    tools: list[AnthropicTool] | None = None
    tool_choice: AnthropicChoice | None = None
    thinking: Thinking | None = None
    output_config: OutputConfig | None = None
    output_format: Any = None
    """As SDKs of 2025 (`beta.messages.parse`) say `output_config.format`."""
    mcp_servers: Any = None
    context_management: Any = None
    container: Any = None


class MessagesBody(CountBody, kw_only=True):
    """Anthropic's request for a message."""

    max_tokens: int
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    stop_sequences: list[str] | None = None
    metadata: CallerMetadata | None = None


MESSAGES_DECODER = msgspec.json.Decoder(MessagesBody)
COUNT_DECODER = msgspec.json.Decoder(CountBody)


def check_count(body: CountBody) -> None:
    """Everything but messages and tools. Raises `ProblemError`."""
    check_model(body.model)
    check_top_level(MESSAGES, body)
    effort = body.output_config.effort if body.output_config is not None else None
    if effort not in (None, *_EFFORTS):
        message = f"output_config.effort has to be one of {', '.join(_EFFORTS)}."
        raise invalid(message, "output_config.effort")


def check_messages(body: MessagesBody) -> None:
    """As `check_count`, of the larger body. Raises `ProblemError`."""
    check_count(body)
    check_ranges(body, _RANGES)
    check_wishes(body)
    if body.metadata is not None:
        check_labels(body.metadata, ("user_id",))


def template_kwargs(body: CountBody) -> dict[str, Any]:
    """What the template is told beside messages and tools. Raises `ProblemError`."""
    kwargs: dict[str, Any] = {}
    if body.output_config is not None and body.output_config.effort is not None:
        kwargs["reasoning_effort"] = body.output_config.effort
    kind = body.thinking.type if body.thinking is not None else "adaptive"
    if kind in ("enabled", "disabled"):
        # templates call the switch one or the other
        kwargs["enable_thinking"] = kwargs["thinking"] = kind == "enabled"
    elif kind != "adaptive":
        raise invalid("thinking.type has to be enabled, disabled or adaptive.", "thinking.type")
    return kwargs


def checked_tools(body: CountBody) -> list[dict[str, Any]] | None:
    """The tools as a template gets them; `None`: none, or none may be called. Raises `ProblemError`."""
    tools = body.tools or []
    check_tool_count(tools)
    plain = [_checked(tool, f"tools[{index}]") for index, tool in enumerate(tools)]
    kind = body.tool_choice.type if body.tool_choice is not None else "auto"
    if kind not in ("auto", "none", "any", "tool"):
        message = "tool_choice.type has to be auto, none, any or tool."
        raise invalid(message, "tool_choice.type")
    return None if kind == "none" else plain or None


def message_wish(body: CountBody, tools: list[dict[str, Any]] | None) -> GuideRequest | None:
    """The form that the answer has to have. Raises `ProblemError`."""
    form = body.output_config.format if body.output_config is not None else None
    wish = wish_of(
        format_wish(form, "output_config.format"),
        format_wish(body.output_format, "output_format"),
        _tool_wish(body, tools),
    )
    single = body.tool_choice is not None and bool(body.tool_choice.disable_parallel_tool_use)
    return wish or strict_wish(tools, single=single)


def _tool_wish(body: CountBody, tools: list[dict[str, Any]] | None) -> GuideRequest | None:
    choice = body.tool_choice
    if choice is None or choice.type not in ("any", "tool"):
        return None
    named = None
    if choice.type == "tool":
        named = choice.name
        if named is None:
            raise invalid("Missing required field 'tool_choice.name'.", "tool_choice.name")
    single = bool(choice.disable_parallel_tool_use)
    return calls_wish(tools, "tool_choice", named=named, single=single)


def _checked(tool: AnthropicTool, where: str) -> dict[str, Any]:
    check_supported(MESSAGES, "tools[].type", tool.type, f"{where}.type")
    schema_field = "input_schema"
    plain = plain_tool(
        tool.name,
        tool.description,
        tool.input_schema,
        tool.strict,
        where=where,
        schema_field=schema_field,
    )
    if tool.input_schema is None:
        param = f"{where}.{schema_field}"
        raise invalid(f"Missing required field '{param}'.", param)
    return plain
