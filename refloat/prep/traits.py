"""What a template wants of its messages, found out by rendering small ones. Never fails: a template
that shows nothing gets the common form, and says itself what it does not like of a real request."""

from typing import Any

from refloat.prep.conversation import Traits
from refloat.prep.template import ChatTemplate, RenderError, Rendering

_PROBE_LIMIT_S = 1.0
_MARK = "q7Zx"
_CALL = "f5Kw"
_VALUE = "v3Jd"


def find_traits(template: ChatTemplate) -> Traits:
    """Probe one template."""
    as_parts = not _shows(template, [_user(_MARK)], _MARK) and _shows(
        template, [_user([{"type": "text", "text": _MARK}])], _MARK
    )

    def text(content: str) -> Any:
        return [{"type": "text", "text": content}] if as_parts else content

    def shows_call(content: Any, arguments: Any, *wanted: str) -> bool:
        return _shows(template, _called(text(_MARK), content, arguments), _CALL, *wanted)

    value: dict[str, str] = {"k": _VALUE}
    written = f'{{"k": "{_VALUE}"}}'
    as_text = not any(shows_call(content, value, _VALUE) for content in ("", None)) and any(
        shows_call(content, written, _VALUE) for content in ("", None)
    )
    arguments = written if as_text else value
    with_null, with_empty = shows_call(None, arguments), shows_call("", arguments)
    return Traits(
        content_as_parts=as_parts,
        knows_developer=template.mentions("developer")
        and _shows(template, [_developer(text(_MARK)), _user(text("u"))], _MARK),
        arguments_as_text=as_text,
        null_beside_calls=with_null,
        # Neither shows a call where a template knows no tools: then "" can do no harm.
        empty_beside_calls=with_empty or not with_null,
        tools_in_system=template.mentions("tools")
        and _shows(template, [_system(text("s"), _CALL), _user(text("u"))], _CALL)
        and not _shows(template, [_system(text("s"), ""), _user(text("u"))], "g9"),
    )


def _system(content: Any, tools: str) -> dict[str, Any]:
    return {"role": "system", "content": content, "tools": tools}


def _user(content: Any) -> dict[str, Any]:
    return {"role": "user", "content": content}


def _developer(content: Any) -> dict[str, Any]:
    return {"role": "developer", "content": content}


def _called(asked: Any, content: Any, arguments: Any) -> list[dict[str, Any]]:
    """A question, a call, its result. The id has the length that the Mistral family insists on."""
    call = {
        "id": "abcdefghi",
        "type": "function",
        "function": {"name": _CALL, "arguments": arguments},
    }
    return [
        _user(asked),
        {"role": "assistant", "content": content, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "abcdefghi", "name": _CALL, "content": "r"},
    ]


def _shows(template: ChatTemplate, messages: list[dict[str, Any]], *wanted: str) -> bool:
    """Whether a rendering has what was said and nothing of Python's own way to write it."""
    tool = {
        "type": "function",
        "function": {"name": "g9", "description": "", "parameters": {"type": "object"}},
    }
    tools = [tool] if len(messages) > 1 else None
    try:
        text = template.render(Rendering(messages, tools), limit_s=_PROBE_LIMIT_S)
    except RenderError:
        return False
    return all(mark in text for mark in wanted) and not any(
        sign in text for sign in ("None", "'type': 'text'", '"type": "text"')
    )
