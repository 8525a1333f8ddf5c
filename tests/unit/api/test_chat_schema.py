"""Chat bodies: every documented field with a wrong type, a wrong range, and null, one at a time."""

import json
from typing import Any

import msgspec
import pytest

from refloat.api.caller import Caller
from refloat.api.schema.chat import RESERVED_TEMPLATE_KWARGS, ChatBody
from refloat.api.translate import Order, translate_chat
from refloat.generation.request import ChatPrompt
from refloat.wire.guide import GuideKind, GuideRequest
from refloat.wire.problem import Problem, ProblemError, ProblemKind

CALLER = Caller("req-1", "key-1")
USER = {"role": "user", "content": "Hi"}
TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}


def order(**fields: Any) -> Order:
    body = {"model": "m", "messages": [USER], **fields}
    return translate_chat(json.dumps(body).encode(), CALLER)


def meaning(made: Order) -> Any:
    """All of an order that a body says."""
    return made.request, made.stream, made.include_usage, made.top_logprobs


def prompt(**fields: Any) -> ChatPrompt:
    made = order(**fields).request.prompts[0]
    assert isinstance(made, ChatPrompt)
    return made


def problem(**fields: Any) -> Problem:
    with pytest.raises(ProblemError) as caught:
        order(**fields)
    return caught.value.problem


WRONG_TYPES: dict[str, Any] = {
    "model": 5,
    "messages": "x",
    "stream": "true",
    "stream_options": True,
    "max_tokens": "5",
    "max_completion_tokens": 1.5,
    "min_tokens": "1",
    "temperature": "hot",
    "top_p": [1],
    "top_k": 1.5,
    "min_p": "0",
    "n": "2",
    "seed": 1.5,
    "stop": 5,
    "include_stop_str_in_output": "yes",
    "stop_token_ids": "1",
    "presence_penalty": "1",
    "frequency_penalty": {},
    "repetition_penalty": "1",
    "ignore_eos": 1,
    "user": 5,
    "metadata": [],
    "request_timeout_s": "30",
    "on_disconnect": True,
    "logit_bias": "x",
    "logprobs": 1,
    "top_logprobs": "1",
    "tools": {},
    "tool_choice": 5,
    "parallel_tool_calls": "no",
    "reasoning_effort": 5,
    "chat_template_kwargs": [],
    "add_generation_prompt": "no",
    "continue_final_message": 1,
    "prompt_cache_key": 5,
    "safety_identifier": 5,
    "store": "yes",
    "service_tier": 5,
    "modalities": "text",
    "audio": 5,
    "prediction": 5,
    "web_search_options": 5,
    "moderation": 5,
    "verbosity": 5,
    "prompt_cache_options": 5,
    "prompt_cache_retention": 5,
    "response_format": "text",
    "functions": 5,
    "function_call": 5,
    "guided_json": 5,
    "guided_stream": 5,
    "guided_regex": 5,
    "guided_choice": "yes",
    "guided_grammar": {},
    "structured_outputs": 5,
}


def test_wrong_types_leave_no_field_out() -> None:
    assert set(WRONG_TYPES) == set(ChatBody.__struct_fields__)


@pytest.mark.parametrize("field", WRONG_TYPES)
def test_field_of_wrong_type_is_refused_by_its_name(field: str) -> None:
    found = problem(**{field: WRONG_TYPES[field]})
    assert found.param == field
    assert field in found.message


@pytest.mark.parametrize("outputs", [{}, {"structural_tag": "{}"}, {"json": None}])
def test_structured_outputs_without_a_known_form_are_not_ignored(outputs: dict[str, Any]) -> None:
    found = problem(structured_outputs=outputs)
    assert found.param == "structured_outputs"
    assert "json, regex, choice, grammar, json_object" in found.message


@pytest.mark.parametrize("field", [f for f in WRONG_TYPES if f not in ("model", "messages")])
def test_null_field_is_as_good_as_absent(field: str) -> None:
    assert meaning(order(**{field: None})) == meaning(order())


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("temperature", -5),
        ("temperature", 2.01),
        ("top_p", 2),
        ("top_p", -0.1),
        ("top_k", -7),
        ("min_p", 1.5),
        ("frequency_penalty", 9),
        ("presence_penalty", -2.5),
        ("repetition_penalty", 0),
        ("repetition_penalty", 11),
        ("max_tokens", -1),
        ("max_tokens", 0),
        ("max_completion_tokens", 0),
        ("max_tokens", 10**12),
        ("min_tokens", -1),
        ("n", 0),
        ("n", 1_000_000),
        ("seed", 2**63),
        ("top_logprobs", 21),
        ("top_logprobs", -1),
        ("stop", ""),
        ("stop", [str(i) for i in range(17)]),
        ("stop", "x" * 1025),
        ("stop_token_ids", [1] * 129),
        ("user", "u" * 4097),
        ("metadata", {str(i): "" for i in range(17)}),
        ("metadata", {"k": "v" * 513}),
        ("reasoning_effort", "extreme"),
        ("model", ""),
        ("messages", []),
    ],
)
def test_field_out_of_range_is_refused_by_its_name(field: str, value: Any) -> None:
    found = problem(**{field: value})
    assert (found.kind, found.param) == (ProblemKind.INVALID_REQUEST, field)


@pytest.mark.parametrize(
    ("field", "value", "param"),
    [
        ("stop", [""], "stop[0]"),
        ("stop", ["a", None], "stop[1]"),
        ("stop_token_ids", [1, -1], "stop_token_ids[1]"),
        ("metadata", {"a": 1}, "metadata"),
        ("stream_options", {"include_usage": "yes"}, "stream_options.include_usage"),
        ("messages", [1], "messages[0]"),
        ("messages", [USER, {"content": "x"}], "messages[1].role"),
        ("messages", [{"role": "user"}], "messages[0].content"),
        ("messages", [{"role": "user", "content": 5}], "messages[0].content"),
        ("messages", [{"role": "user", "content": [{"type": "text"}]}], "messages[0].content[0].text"),
        ("messages", [{"role": "king", "content": "x"}], "messages[0].role"),
        ("messages", [USER, {"role": "tool", "content": "x"}], "messages[1].tool_call_id"),
        (
            "messages",
            [USER, {"role": "tool", "content": "x", "tool_call_id": "c"}],
            "messages[1].tool_call_id",
        ),
        (
            "messages",
            [{"role": "user", "content": "x", "tool_calls": [{"id": "a", "function": {
                "name": "f", "arguments": "{}"}}]}],
            "messages[0].tool_calls",
        ),
        ("tools", [{"function": {"name": "f"}}], "tools[0].type"),
        ("tools", [TOOL, {"type": "function"}], "tools[1].function"),
        ("tools", [{"type": "function", "function": {"name": ""}}], "tools[0].function.name"),
        ("chat_template_kwargs", {"messages": []}, "chat_template_kwargs.messages"),
        ("chat_template_kwargs", {"a b": 1}, "chat_template_kwargs"),
    ],
)  # fmt: skip
def test_fault_inside_a_field_is_named_by_its_path(field: str, value: Any, param: str) -> None:
    more = {"stream": True} if field == "stream_options" else {}
    found = problem(**{field: value}, **more)
    assert (found.kind, found.param) == (ProblemKind.INVALID_REQUEST, param)


@pytest.mark.parametrize(
    ("field", "value", "param"),
    [
        ("logit_bias", {"99999999": 5}, "logit_bias"),
        ("audio", {"voice": "x"}, "audio"),
        ("modalities", ["text", "audio"], "modalities"),
        ("prediction", {"type": "content"}, "prediction"),
        ("web_search_options", {}, "web_search_options"),
        ("store", True, "store"),
        ("service_tier", "flex", "service_tier"),
        ("tool_choice", {"type": "allowed_tools"}, "tool_choice.type"),
        ("functions", [{"name": "f"}], "functions"),
        ("function_call", {"name": "f"}, "function_call"),
        ("top_logprobs", 5, "top_logprobs"),
        ("tools", [TOOL, {"type": "web_search"}], "tools[1].type"),
        ("messages", [{"role": "function", "content": "x"}], "messages[0].role"),
        (
            "messages",
            [USER, {"role": "user", "content": [
                {"type": "text", "text": "x"},
                {"type": "image_url", "image_url": {"url": "http://127.0.0.1/"}}]}],
            "messages[1].content[1]",
        ),
    ],
)  # fmt: skip
def test_field_that_cannot_be_honoured_says_so(field: str, value: Any, param: str) -> None:
    more = {"logprobs": True} if field == "top_logprobs" else {}
    found = problem(**{field: value}, **more)
    assert (found.kind, found.param) == (ProblemKind.UNSUPPORTED_VALUE, param)
    assert "not support" in found.message


@pytest.mark.parametrize(
    "fields",
    [
        {"logit_bias": {}},
        {"modalities": ["text"]},
        {"store": False},
        {"service_tier": "auto"},
        {"response_format": {"type": "text"}},
        {"function_call": "none"},
        {"top_logprobs": 0},
        {"verbosity": "medium"},
    ],
)
def test_neutral_value_of_unsupported_field_asks_for_nothing(fields: dict[str, Any]) -> None:
    assert meaning(order(**fields)) == meaning(order())


def test_unknown_fields_are_ignored() -> None:
    assert meaning(order(frobnicate={"x": [1]})) == meaning(order())


def test_max_completion_tokens_wins_over_max_tokens() -> None:
    request = order(max_tokens=5, max_completion_tokens=3).request
    assert (request.sampling.max_tokens, request.max_tokens_param) == (3, "max_completion_tokens")
    assert order(max_tokens=5).request.sampling.max_tokens == 5


def test_min_tokens_above_the_limit_is_refused() -> None:
    assert problem(max_tokens=2, min_tokens=3).param == "min_tokens"


def test_sampling_reaches_the_request_as_said() -> None:
    fields = {
        "temperature": 0,
        "top_p": 0.5,
        "top_k": -1,
        "min_p": 0.1,
        "seed": 42,
        "presence_penalty": 1,
        "frequency_penalty": -1,
        "repetition_penalty": 1.1,
        "stop": ["a", "b"],
        "include_stop_str_in_output": True,
        "stop_token_ids": [7],
        "ignore_eos": True,
        "min_tokens": 2,
        "logprobs": True,
    }
    sampling = msgspec.structs.asdict(order(**fields).request.sampling)
    expected = {**fields, "top_k": 0, "stop": ("a", "b"), "stop_token_ids": (7,)}
    assert sampling == {**expected, "max_tokens": None}


def test_min_p_of_one_is_what_an_engine_takes() -> None:
    min_p = order(min_p=1).request.sampling.min_p
    assert min_p is not None
    assert 0.99 < min_p < 1


def test_top_p_of_zero_is_the_likeliest_token() -> None:
    top_p = order(top_p=0).request.sampling.top_p
    assert top_p is not None
    assert 0 < top_p < 1e-5


def test_stream_options_need_a_stream() -> None:
    assert problem(stream_options={"include_usage": True}).param == "stream_options"
    assert order(stream=True, stream_options={"include_usage": True}).include_usage
    assert not order(stream=True, stream_options={}).include_usage


def test_top_logprobs_need_logprobs() -> None:
    assert problem(top_logprobs=1).param == "top_logprobs"
    assert order(logprobs=True, top_logprobs=1).top_logprobs == 1


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("tools", [[], None])
def test_required_choice_without_tools_is_refused(stream: bool, tools: Any) -> None:
    found = problem(tools=tools, tool_choice="required", stream=stream)
    assert (found.kind, found.param) == (ProblemKind.INVALID_REQUEST, "tools")


@pytest.mark.parametrize("choice", [None, "auto", "none"])
def test_empty_tools_are_no_tools(choice: str | None) -> None:
    assert prompt(tools=[], tool_choice=choice).tools is None


def test_tools_reach_the_template() -> None:
    assert prompt(tools=[TOOL], tool_choice="auto", parallel_tool_calls=False).tools == [TOOL]


def test_tool_choice_becomes_the_wish_for_a_call() -> None:
    text = msgspec.json.encode([TOOL]).decode()
    many = GuideRequest(GuideKind.CALLS, text, "tool_choice")
    assert order(tools=[TOOL], tool_choice="required").request.guide == many
    one = msgspec.structs.replace(many, single=True)
    assert (
        order(tools=[TOOL], tool_choice="required", parallel_tool_calls=False).request.guide == one
    )
    named = {"type": "function", "function": {"name": "f"}}
    chosen = msgspec.structs.replace(one, named="f")
    assert order(tools=[TOOL], tool_choice=named).request.guide == chosen


def test_tool_choice_of_an_unknown_name_is_refused() -> None:
    named = {"type": "function", "function": {"name": "g"}}
    found = problem(tools=[TOOL], tool_choice=named)
    assert (found.kind, found.param) == (ProblemKind.INVALID_REQUEST, "tool_choice")


def called(call_id: str, arguments: str = "{}") -> dict[str, Any]:
    function = {"name": "f", "arguments": arguments}
    return {"id": call_id, "type": "function", "function": function}


def test_tool_round_trip_keeps_calls_and_results() -> None:
    messages = [
        {"role": "system", "content": "s"},
        USER,
        {"role": "assistant", "content": None, "tool_calls": [called("a"), called("b")]},
        {"role": "tool", "tool_call_id": "b", "content": '{"x": 1}'},
        {"role": "tool", "tool_call_id": "a", "content": None},
        USER,
    ]
    rendered = prompt(messages=messages).messages
    assert rendered[2] == {
        "role": "assistant",
        "content": "",
        "tool_calls": [called("a"), called("b")],
    }
    assert rendered[3] == {"role": "tool", "tool_call_id": "b", "content": '{"x": 1}'}
    assert rendered[4]["content"] == ""


def test_repeated_call_id_is_refused_with_its_place() -> None:
    twice = {"role": "assistant", "content": "", "tool_calls": [called("a")]}
    found = problem(messages=[USER, twice, USER, twice])
    assert found.param == "messages[3].tool_calls[0].id"


@pytest.mark.parametrize("content", ["", None, []])
def test_assistant_may_have_said_nothing(content: Any) -> None:
    said: Any = {"role": "assistant", "content": content, "tool_calls": []}
    rendered = prompt(messages=[USER, said, USER]).messages
    assert rendered[1] == {"role": "assistant", "content": ""}


@pytest.mark.parametrize("name", ["reasoning_content", "reasoning"])
def test_reasoning_of_an_earlier_turn_reaches_the_template(name: str) -> None:
    said: Any = {"role": "assistant", "content": "yes", name: "hm"}
    assert prompt(messages=[USER, said, USER]).messages[1]["reasoning_content"] == "hm"


def test_empty_user_message_passes() -> None:
    assert prompt(messages=[{"role": "user", "content": ""}]).messages[0]["content"] == ""


def test_text_parts_become_one_text() -> None:
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    assert prompt(messages=[{"role": "user", "content": parts}]).messages[0]["content"] == "a\nb"


def test_broken_arguments_of_an_earlier_call_end_no_session() -> None:
    said = {"role": "assistant", "tool_calls": [called("a", '{"x": ')]}
    assert prompt(messages=[USER, said]).messages[1]["tool_calls"] == [called("a", '{"x": ')]


def test_reasoning_effort_reaches_the_template() -> None:
    high = prompt(reasoning_effort="high").template_kwargs
    assert high == {"reasoning_effort": "high", "enable_thinking": True, "thinking": True}
    none = prompt(reasoning_effort="none").template_kwargs
    assert none == {"reasoning_effort": "none", "enable_thinking": False, "thinking": False}
    explicit = prompt(reasoning_effort="none", chat_template_kwargs={"enable_thinking": True})
    assert explicit.template_kwargs["enable_thinking"] is True


@pytest.mark.parametrize("name", sorted(RESERVED_TEMPLATE_KWARGS))
def test_template_arguments_of_the_server_cannot_be_set(name: str) -> None:
    assert problem(chat_template_kwargs={name: "x"}).param == f"chat_template_kwargs.{name}"


def nested(depth: int) -> Any:
    value: Any = {}
    for _ in range(depth):
        value = {"a": value}
    return value


def test_nesting_is_limited_wherever_it_is_free() -> None:
    deep = nested(150)
    assert problem(chat_template_kwargs={"x": deep}).param == "chat_template_kwargs"
    tool = {"type": "function", "function": {"name": "f", "parameters": deep}}
    assert problem(tools=[tool]).param == "tools[0].function.parameters"
    said = {"role": "assistant", "tool_calls": [called("a", json.dumps(deep))]}
    expected = "messages[0].tool_calls[0].function.arguments"
    assert problem(messages=[said]).param == expected
    assert prompt(chat_template_kwargs={"x": nested(90)}).template_kwargs["x"] == nested(90)


@pytest.mark.parametrize("number", [2**64, -(2**63) - 1])
def test_number_that_no_message_can_carry_is_refused_by_its_place(number: int) -> None:
    arguments = {"x": [{"y": number}]}
    assert problem(chat_template_kwargs=arguments).param == "chat_template_kwargs"
    parameters = {"type": "object", "properties": {"a": {"maximum": number}}}
    tool = {"type": "function", "function": {"name": "f", "parameters": parameters}}
    assert problem(tools=[tool]).param == "tools[0].function.parameters"
    largest = {"x": 2**64 - 1, "y": -(2**63)}
    assert prompt(chat_template_kwargs=largest).template_kwargs == largest


def test_counts_are_limited() -> None:
    assert problem(tools=[TOOL] * 513).param == "tools"
    assert problem(messages=[USER] * 10_001).param == "messages"
    assert problem(chat_template_kwargs={f"k{i}": 1 for i in range(65)}).param is not None
