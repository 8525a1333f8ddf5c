"""Tool declarations and the choice among them."""

from collections.abc import Sequence
from typing import Any

import msgspec

from refloat.api.errors import invalid
from refloat.api.schema.decode import check_free_form
from refloat.api.schema.forms import calls_wish
from refloat.api.schema.unsupported import CHAT, check_supported
from refloat.wire.guide import GuideRequest

MAX_TOOLS = 512
MAX_TOOL_NAME_CHARS = 256


class FunctionSpec(msgspec.Struct):
    """A function that the model may call."""

    name: str
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None


class Tool(msgspec.Struct):
    """One declared tool. Hosted ones (another type) are named in the refusal."""

    type: str
    function: FunctionSpec | None = None


class NamedFunction(msgspec.Struct):
    """The function that a choice names."""

    name: str


class ToolChoice(msgspec.Struct):
    """A choice given as an object."""

    type: str
    function: NamedFunction | None = None


def check_tool_count(tools: Sequence[object]) -> None:
    """Raises `ProblemError` for more than `MAX_TOOLS`."""
    if len(tools) > MAX_TOOLS:
        raise invalid(f"tools may have {MAX_TOOLS} entries at most.", "tools")


def plain_tool(
    name: str | None,
    description: str | None,
    parameters: dict[str, Any] | None,
    strict: bool | None,
    *,
    where: str,
    schema_field: str = "parameters",
) -> dict[str, Any]:
    """A tool as templates get it, whatever dialect declared it. `where` and `schema_field` name it
    and its schema in the refusal. Raises `ProblemError`."""
    if not 0 < len(name or "") <= MAX_TOOL_NAME_CHARS:
        message = f"{where}.name has to have 1 to {MAX_TOOL_NAME_CHARS} characters."
        raise invalid(message, f"{where}.name")
    plain: dict[str, Any] = {"name": name}
    if description is not None:
        plain["description"] = description
    if parameters is not None:
        check_free_form(parameters, f"{where}.{schema_field}")
        plain["parameters"] = parameters
    if strict is not None:
        plain["strict"] = strict
    return {"type": "function", "function": plain}


def checked_tools(
    tools: list[Tool] | None, choice: str | ToolChoice | None
) -> list[dict[str, Any]] | None:
    """The tools as a template gets them; `None`: there are none, or none may be called, which a model
    that does not see them is sure to heed. Raises `ProblemError`."""
    tools = tools or []
    check_tool_count(tools)
    plain = [_checked(tool, f"tools[{i}]") for i, tool in enumerate(tools)]
    return None if choice == "none" else plain or None


def _checked(tool: Tool, where: str) -> dict[str, Any]:
    check_supported(CHAT, "tools[].type", tool.type, f"{where}.type")
    function = tool.function
    if function is None:
        raise invalid(f"Missing required field '{where}.function'.", f"{where}.function")
    return plain_tool(
        function.name,
        function.description,
        function.parameters,
        function.strict,
        where=f"{where}.function",
    )


def tool_wish(
    choice: str | ToolChoice | None, tools: list[dict[str, Any]] | None, *, single: bool
) -> GuideRequest | None:
    """The call that is asked for by a choice; `None`: it asks for none. Raises `ProblemError`."""
    if choice is None or choice in ("none", "auto"):
        return None
    if isinstance(choice, str):
        if choice != "required":
            message = "tool_choice has to be none, auto, required or an object."
            raise invalid(message, "tool_choice")
        return calls_wish(tools, "tool_choice", named=None, single=single)
    check_supported(CHAT, "tool_choice.type", choice.type)
    if choice.function is None:
        raise invalid("Missing required field 'tool_choice.function'.", "tool_choice.function")
    return calls_wish(tools, "tool_choice", named=choice.function.name, single=True)
