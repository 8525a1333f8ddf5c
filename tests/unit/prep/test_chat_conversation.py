"""OpenAI's messages made into what templates expect, without any template."""

from typing import Any

import pytest

from refloat.prep.conversation import Traits, merged, normalised
from refloat.wire.problem import ProblemError, ProblemKind

COMMON = Traits()
CALL_ID = "call_1"


def called(arguments: Any, **more: Any) -> dict[str, Any]:
    function = {"name": "weather", "arguments": arguments}
    call = {"id": CALL_ID, "type": "function", "function": function}
    return {"role": "assistant", "content": None, "tool_calls": [call], **more}


def result(**more: Any) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": CALL_ID, "content": "sunny", **more}


def arguments_of(message: dict[str, Any]) -> Any:
    return message["tool_calls"][0]["function"]["arguments"]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ('{"city": "Paris"}', {"city": "Paris"}),
        ("", {}),
        ("  ", {}),
        ("null", {}),
        (None, {}),
        ({"city": "Paris"}, {"city": "Paris"}),
        ('{"city": "Par', '{"city": "Par'),
        ("[1]", "[1]"),
    ],
)
def test_call_arguments_become_a_mapping_where_they_are_one(given: Any, expected: Any) -> None:
    [message] = normalised([called(given)], COMMON)
    assert arguments_of(message) == expected


@pytest.mark.parametrize(
    ("given", "expected"),
    [('{ "a":1 }', '{ "a":1 }'), ("", "{}"), ("null", "{}"), (None, "{}"), ({"é": 1}, '{"é": 1}')],
)
def test_call_arguments_stay_text_for_a_template_that_wants_text(given: Any, expected: str) -> None:
    [message] = normalised([called(given)], Traits(arguments_as_text=True))
    assert arguments_of(message) == expected


def test_call_arguments_nested_beyond_reason_stay_text() -> None:
    deep = "[" * 100_000
    [message] = normalised([called(deep)], COMMON)
    assert arguments_of(message) == deep


def test_call_keeps_its_other_fields() -> None:
    [message] = normalised([called("{}")], COMMON)
    assert message["tool_calls"][0]["id"] == CALL_ID
    assert message["tool_calls"][0]["function"]["name"] == "weather"


@pytest.mark.parametrize("calls", [[], None])
def test_message_with_no_calls_is_one_without_the_field(calls: Any) -> None:
    message = {"role": "assistant", "content": "ok", "tool_calls": calls}
    assert normalised([message], COMMON) == [{"role": "assistant", "content": "ok"}]


@pytest.mark.parametrize("content", [None, "", []])
@pytest.mark.parametrize("role", ["assistant", "user", "system"])
def test_message_without_content_has_an_empty_one(role: str, content: Any) -> None:
    assert normalised([{"role": role, "content": content}], COMMON)[0]["content"] == ""
    assert normalised([{"role": role}], COMMON)[0]["content"] == ""


@pytest.mark.parametrize(
    ("with_null", "with_empty", "given", "expected"),
    [
        (True, True, None, None),
        (True, True, "", ""),
        (False, True, None, ""),
        (True, False, "", None),
        (False, False, None, ""),
    ],
)
def test_content_beside_calls_takes_the_form_in_which_the_template_shows_them(
    with_null: bool, with_empty: bool, given: Any, expected: Any
) -> None:
    traits = Traits(null_beside_calls=with_null, empty_beside_calls=with_empty)
    [message] = normalised([called("{}", content=given)], traits)
    assert message["content"] == expected


def test_null_fields_are_absent_ones() -> None:
    message = {"role": "user", "content": "a", "name": None, "refusal": None}
    assert normalised([message], COMMON) == [{"role": "user", "content": "a"}]


def test_text_parts_are_joined_by_lines() -> None:
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    messages = [{"role": "user", "content": parts}, called("{}"), result(content=parts)]
    assert [m["content"] for m in normalised(messages, COMMON)] == ["a\nb", None, "a\nb"]


def test_text_becomes_a_part_for_a_template_that_wants_parts() -> None:
    [message] = normalised([{"role": "user", "content": "a"}], Traits(content_as_parts=True))
    assert message["content"] == [{"type": "text", "text": "a"}]


def test_part_that_is_no_text_is_refused_by_its_place() -> None:
    parts = [{"type": "text", "text": "a"}, {"type": "image_url", "image_url": {"url": "x"}}]
    with pytest.raises(ProblemError) as caught:
        normalised([{"role": "user", "content": "x"}, {"role": "user", "content": parts}], COMMON)
    assert caught.value.problem.kind is ProblemKind.INVALID_REQUEST
    assert caught.value.problem.param == "messages[1].content[1]"
    assert "image_url" in caught.value.problem.message


def test_developer_is_the_system_for_a_template_that_does_not_know_it() -> None:
    message = {"role": "developer", "content": "be brief"}
    assert normalised([message], COMMON)[0]["role"] == "system"
    assert normalised([message], Traits(knows_developer=True))[0]["role"] == "developer"


@pytest.mark.case(100)
@pytest.mark.parametrize(
    ("messages", "param"),
    [
        ([{"role": "user", "content": "x"}, result()], "messages[1]"),
        ([result(), called("{}")], "messages[0]"),
        ([called("{}"), result(tool_call_id="other")], "messages[1].tool_call_id"),
        ([called("{}"), result(tool_call_id=["x"])], "messages[1].tool_call_id"),
        ([called("{}", tool_calls=[{}]), result(tool_call_id="None")], "messages[1].tool_call_id"),
    ],
)
def test_tool_result_without_its_call_is_refused_by_its_index(
    messages: list[dict[str, Any]], param: str
) -> None:
    with pytest.raises(ProblemError) as caught:
        normalised(messages, COMMON)
    assert caught.value.problem.param == param


def test_tool_results_of_parallel_calls_may_come_in_any_order() -> None:
    first, second = called("{}"), called("{}")
    second["tool_calls"][0]["id"] = "call_2"
    first["tool_calls"] += second["tool_calls"]
    messages = [first, result(tool_call_id="call_2"), result(), result(tool_call_id=None)]
    assert len(normalised(messages, COMMON)) == 4


@pytest.mark.parametrize(
    ("message", "param"),
    [
        ({"role": "user", "content": 7}, "messages[0].content"),
        ({"role": "user", "content": [7]}, "messages[0].content[0]"),
        ({"role": "assistant", "tool_calls": 7}, "messages[0].tool_calls"),
        ({"role": "assistant", "tool_calls": [7]}, "messages[0].tool_calls[0].function"),
        ({"role": "assistant", "tool_calls": [{"id": "a"}]}, "messages[0].tool_calls[0].function"),
    ],
)
def test_message_of_a_wrong_type_is_refused_by_its_place(
    message: dict[str, Any], param: str
) -> None:
    with pytest.raises(ProblemError) as caught:
        normalised([message], COMMON)
    assert caught.value.problem.param == param


def test_normalising_leaves_the_request_as_it_was() -> None:
    message = called('{"a": 1}')
    normalised([message], COMMON)
    assert message["tool_calls"][0]["function"]["arguments"] == '{"a": 1}'


def turn(role: str, content: Any) -> dict[str, Any]:
    return {"role": role, "content": content}


def test_neighbours_of_one_role_are_merged() -> None:
    messages = [turn("system", "a"), turn("system", "b"), turn("user", "c"), turn("user", "")]
    assert merged(messages) == [turn("system", "a\n\nb"), turn("user", "c")]


def test_neighbours_in_parts_are_merged_as_parts() -> None:
    one, two = [{"type": "text", "text": "1"}], [{"type": "text", "text": "2"}]
    assert merged([turn("user", one), turn("user", two)]) == [turn("user", one + two)]


def test_tool_results_are_found_without_comparing_each_with_every_call() -> None:
    compared: list[object] = []

    class Id(str):
        __hash__ = str.__hash__

        def __eq__(self, other: object) -> bool:
            compared.append(other)
            return str(self) == str(other)

    call = called("{}")["tool_calls"][0]
    calls = [{**call, "id": Id(f"call_{number}")} for number in range(200)]
    results = [result(tool_call_id="call_199") for _ in range(200)]
    normalised([{**called("{}"), "tool_calls": calls}, *results], Traits())
    assert len(compared) < 1000


def test_calls_and_tool_results_are_never_merged() -> None:
    messages = normalised([called("{}"), result(), result(), called("{}")], COMMON)
    assert merged(messages) is None
