"""Whole chats through templates that each want something else. The small templates stand for kinds
of real ones; each keeps the construct that decides."""

import json
from typing import Any

import pytest

from refloat.prep.chat import ChatRenderer
from refloat.prep.sources import TemplateSource
from refloat.prep.template import ChatTemplate
from refloat.wire.prep_messages import Render
from refloat.wire.problem import ProblemError, ProblemKind

CHATML = (
    "{% for m in messages %}<{{ m.role }}>{{ m.content }}"
    "{% for c in m.tool_calls or [] %}[{{ c.function.name }} {{ c.function.arguments | tojson }}]"
    "{% endfor %}</>{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}"
)
TURNS = (
    "{{ bos_token }}{% for m in messages %}"
    "{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}"
    "{{ raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}"
    "{% endif %}<{{ m.role }}>{{ m.content | trim }}{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}"
)
PARTS = (
    "{% for m in messages %}<{{ m.role }}>"
    "{% for p in m.content %}{{ p.text }}{% endfor %}{% endfor %}"
)
ITEMS = (
    "{% for m in messages %}<{{ m.role }}>{{ m.content or '' }}{% for c in m.tool_calls or [] %}"
    "[{{ c.function.name }}{% for k, v in c.function.arguments.items() %} {{ k }}={{ v }}{% endfor %}]"
    "{% endfor %}{% endfor %}"
)
GLUED = (
    "{% for m in messages %}{% if m.role == 'assistant' and m.content is none %}"
    "{% for c in m.tool_calls %}[{{ c.function.name + ' ' + c.function.arguments }}]{% endfor %}"
    "{% else %}<{{ m.role }}>{{ m.content }}{% endif %}{% endfor %}"
)


def renderer(text: str) -> ChatRenderer:
    return ChatRenderer(ChatTemplate(TemplateSource("test", text), {"bos_token": ""}, limit_s=5.0))


def render(text: str, *messages: dict[str, Any], **more: Any) -> str:
    return renderer(text).render(Render(1, list(messages), **more))


def problem(text: str, *messages: dict[str, Any], **more: Any) -> Any:
    with pytest.raises(ProblemError) as caught:
        render(text, *messages, **more)
    assert caught.value.problem.kind is ProblemKind.INVALID_REQUEST
    return caught.value.problem


def outcome(text: str, *messages: dict[str, Any]) -> str | None:
    """`rendered`, or the field that was blamed."""
    try:
        render(text, *messages)
    except ProblemError as error:
        return error.problem.param
    return "rendered"


def say(role: str, content: Any) -> dict[str, Any]:
    return {"role": role, "content": content}


def call(arguments: str, content: Any = None) -> dict[str, Any]:
    function = {"name": "weather", "arguments": arguments}
    one = {"id": "abcdefghi", "type": "function", "function": function}
    return {"role": "assistant", "content": content, "tool_calls": [one]}


RESULT = {"role": "tool", "tool_call_id": "abcdefghi", "content": "sunny"}
PARIS = json.dumps({"city": "Paris"})


def test_chat_plain_turns_render() -> None:
    assert render(CHATML, say("user", "Hi")) == "<user>Hi</><assistant>"
    assert render(CHATML, say("user", "Hi"), add_generation_prompt=False) == "<user>Hi</>"


@pytest.mark.case(95)
def test_chat_null_beginning_token_renders_as_nothing() -> None:
    assert render(TURNS, say("user", "Hi")) == "<user>Hi<assistant>"


@pytest.mark.case(96)
def test_chat_call_arguments_are_parsed_before_rendering() -> None:
    text = render(ITEMS, say("user", "?"), call(PARIS), RESULT, say("user", "and?"))
    assert text == "<user>?<assistant>[weather city=Paris]<tool>sunny<user>and?"


@pytest.mark.case(96)
@pytest.mark.parametrize("arguments", ["", "null", "{}"])
def test_chat_call_without_arguments_renders(arguments: str) -> None:
    assert "[weather]" in render(ITEMS, say("user", "?"), call(arguments), RESULT)


def test_chat_broken_call_arguments_of_an_earlier_turn_are_a_callers_error() -> None:
    found = problem(ITEMS, say("user", "?"), call('{"city": "Par'), RESULT)
    assert found.param == "messages"
    assert "items" in found.message


@pytest.mark.parametrize("content", [None, ""])
def test_chat_template_that_wants_text_and_null_gets_both(content: Any) -> None:
    assert renderer(GLUED).traits.arguments_as_text
    text = render(GLUED, say("user", "?"), call(PARIS, content), RESULT)
    assert text == f"<user>?[weather {PARIS}]<tool>sunny"


@pytest.mark.parametrize("content", [None, ""])
def test_chat_template_that_would_write_none_gets_an_empty_text(content: Any) -> None:
    text = render(CHATML, say("user", "?"), call(PARIS, content), RESULT)
    assert f"<assistant>[weather {PARIS}]" in text
    assert "None" not in text


def test_chat_template_for_parts_gets_parts() -> None:
    assert renderer(PARTS).traits.content_as_parts
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    assert render(PARTS, say("user", "Hi"), say("assistant", parts)) == "<user>Hi<assistant>ab"


def test_chat_template_for_text_gets_text() -> None:
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    assert render(CHATML, say("user", parts)) == "<user>a\nb</><assistant>"


@pytest.mark.case(98)
@pytest.mark.parametrize("content", ["", None])
def test_chat_empty_assistant_message_renders(content: Any) -> None:
    text = render(CHATML, say("user", "a"), say("assistant", content), say("user", "b"))
    assert text == "<user>a</><assistant></><user>b</><assistant>"


@pytest.mark.case(99)
def test_chat_message_with_empty_list_of_calls_renders_as_without() -> None:
    message: dict[str, Any] = {"role": "assistant", "content": "ok", "tool_calls": []}
    assert render(CHATML, say("user", "a"), message).startswith("<user>a</><assistant>ok</>")


def test_chat_turns_out_of_order_are_merged_where_the_template_refuses_them() -> None:
    text = render(TURNS, say("user", "a"), say("user", "b"), say("assistant", "c"))
    assert text == "<user>a\n\nb<assistant>c<assistant>"


def test_chat_turns_are_not_merged_where_the_template_takes_them() -> None:
    assert render(CHATML, say("user", "a"), say("user", "b")).startswith("<user>a</><user>b</>")


def test_chat_order_that_merging_does_not_mend_is_refused_in_the_templates_words() -> None:
    found = problem(TURNS, say("user", "a"), say("assistant", "b"), say("system", "c"))
    assert found.param == "messages"
    assert found.message.startswith("Conversation roles must alternate")


@pytest.mark.case(97)
@pytest.mark.parametrize(
    "messages",
    [
        [say("user", "a"), say("user", "b"), say("assistant", "c")],
        [say("user", "a"), say("system", "b"), say("user", "c")],
        [say("user", "a"), say("assistant", "b")],
        [say("system", "a"), say("system", "b"), say("user", "c")],
        [say("assistant", "a")],
    ],
)
@pytest.mark.parametrize("template", [CHATML, TURNS, PARTS, ITEMS, GLUED])
def test_chat_any_order_of_roles_is_rendered_or_refused(
    template: str, messages: list[dict[str, Any]]
) -> None:
    assert outcome(template, *messages) in ("rendered", "messages")


def test_chat_refusal_about_something_else_is_not_retried() -> None:
    text = "{{ raise_exception('too many: ' ~ messages | length) }}"
    assert problem(text, say("user", "a"), say("user", "b")).message == "too many: 2"


def test_chat_developer_goes_to_the_system_unless_the_template_knows_it() -> None:
    assert render(CHATML, say("developer", "x")).startswith("<system>x")
    assert render(CHATML + "{# developer #}", say("developer", "x")).startswith("<developer>x")


def test_chat_developer_whom_the_template_would_leave_out_goes_to_the_system() -> None:
    each = "{% if m.role != 'developer' %}{{ m.content }};{% endif %}"
    text = f"{{% for m in messages %}}{each}{{% endfor %}}"
    assert render(text, say("developer", "be brief"), say("user", "Hi")) == "be brief;Hi;"


@pytest.mark.parametrize("given", ["reasoning_content", "reasoning", "thinking"])
@pytest.mark.parametrize("read", ["reasoning_content", "thinking"])
def test_chat_reasoning_is_found_under_the_name_that_the_template_reads(
    given: str, read: str
) -> None:
    text = f"{{% for m in messages %}}{{{{ m.{read} or '' }}}}{{{{ m.content }}}}{{% endfor %}}"
    message = {"role": "assistant", "content": "yes", given: "hm, "}
    assert render(text, say("user", "Hi "), message) == "Hi hm, yes"


def test_chat_tools_and_callers_variables_reach_the_template() -> None:
    text = "{{ tools | length if tools else 'none' }} {{ think }} {{ documents }}"
    tool = {"type": "function", "function": {"name": "f"}}
    more: dict[str, Any] = {"think": False, "documents": [{"title": "t"}]}
    assert render(text, tools=[tool], template_kwargs=more) == "1 False [{'title': 't'}]"
    assert render(text, tools=[]) == "none  None"


@pytest.mark.parametrize("name", ["messages", "tools", "add_generation_prompt", "bos_token"])
def test_chat_callers_variable_may_not_replace_a_field(name: str) -> None:
    found = problem(CHATML, say("user", "a"), template_kwargs={name: "x"})
    assert found.param == f"chat_template_kwargs.{name}"


def test_chat_continued_ends_with_the_last_message() -> None:
    messages = [say("user", "a"), say("assistant", "The answer is ")]
    text = render(CHATML, *messages, continue_final_message=True)
    assert text == "<user>a</><assistant>The answer is "


def test_chat_continued_by_a_trimming_template_loses_the_space_only() -> None:
    messages = [say("user", "The answer is"), say("assistant", "The answer is ")]
    text = render(TURNS, *messages, continue_final_message=True)
    assert text == "<user>The answer is<assistant>The answer is"


def test_chat_continued_in_parts_ends_with_the_last_message() -> None:
    messages = [say("user", "a"), say("assistant", "b")]
    assert render(PARTS, *messages, continue_final_message=True) == "<user>a<assistant>b"


@pytest.mark.parametrize("messages", [[say("user", "a")], [say("user", "a"), call(PARIS)], []])
def test_chat_continued_without_text_to_continue_is_refused(
    messages: list[dict[str, Any]],
) -> None:
    assert "assistant message" in problem(ITEMS, *messages, continue_final_message=True).message


def test_chat_continued_by_a_template_that_drops_the_message_is_refused() -> None:
    found = problem("fixed", say("assistant", "a"), continue_final_message=True)
    assert found.param == "continue_final_message"


def test_chat_template_that_always_refuses_still_loads() -> None:
    found = problem("{{ raise_exception('no') }}", say("user", "a"))
    assert found.message == "no"


@pytest.mark.parametrize(
    ("template", "effort", "taken"),
    [
        ("{{ reasoning_effort }}", "low", True),
        ("{% if enable_thinking %}x{% endif %}", "high", True),
        ("{% if thinking %}x{% endif %}", "none", True),
        ("no switch", "none", True),
        ("no switch", "low", False),
        ("<think>", "none", False),
    ],
)
def test_reasoning_effort_without_an_effect_is_refused(
    template: str, effort: str, taken: bool
) -> None:
    def rendered() -> None:
        render(template, {"role": "user", "content": "x"}, template_kwargs=more)

    more = {"reasoning_effort": effort}
    if taken:
        rendered()
        return
    with pytest.raises(ProblemError) as caught:
        rendered()
    assert caught.value.problem.kind is ProblemKind.UNSUPPORTED_VALUE
    assert caught.value.problem.param == "reasoning_effort"


#: As Phi-4-mini's: of tools it knows only what a system message has with it.
BESIDE_SYSTEM = (
    "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}"
    "{% if m.role == 'system' and m.tools %}<|tool|>{{ m.tools }}<|/tool|>{% endif %}{% endfor %}"
)


@pytest.mark.parametrize("said", [(), (say("system", "Be brief."),)], ids=["alone", "system"])
def test_tools_reach_a_template_that_has_them_in_the_system_message(said: Any) -> None:
    tools = [{"type": "function", "function": {"name": "f", "description": "é"}}]
    assert renderer(BESIDE_SYSTEM).traits.tools_in_system
    text = render(BESIDE_SYSTEM, *said, say("user", "u"), tools=tools)
    system = "Be brief." if said else "You are a helpful assistant with some tools."
    written = '[{"name": "f", "description": "é"}]'
    assert text == f"<|system|>{system}<|tool|>{written}<|/tool|><|user|>u"
    assert render(BESIDE_SYSTEM, say("user", "u")) == "<|user|>u"
    assert not renderer(CHATML).traits.tools_in_system
