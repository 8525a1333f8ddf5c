"""Histories as agents really send them, through templates that never thought of them."""

from collections.abc import Callable
from typing import Any

import pytest

from refloat.testing.client import Answer
from refloat.testing.harness import Server

pytestmark = [pytest.mark.process, pytest.mark.engine]

CHAT = "/v1/chat/completions"
MODELS = ["tiny-hybrid", "tiny-scripted"]
ErrorOf = Callable[[Answer], dict[str, Any]]


def post(server: Server, model: str, messages: list[dict[str, Any]]) -> Answer:
    """A short chat."""
    body = {"model": model, "messages": messages, "max_tokens": 4, "temperature": 0}
    return server.client().post(CHAT, body)


def said(role: str, content: Any = "ok", **more: Any) -> dict[str, Any]:
    """One message."""
    return {"role": role, "content": content, **more}


def call(arguments: str, call_id: str = "call_1") -> list[dict[str, Any]]:
    """The calls of an assistant's message."""
    function = {"name": "get_weather", "arguments": arguments}
    return [{"id": call_id, "type": "function", "function": function}]


@pytest.mark.case(95)
def test_null_bos_token_is_an_empty_text(engine: Server) -> None:
    messages = [said("user", "Hi")]
    assert post(engine, "strict", messages).status == 200
    body = {"model": "strict", "messages": messages}
    ids = engine.client().post("/v1/tokenize", body).json()["tokens"]
    text = engine.client().post("/v1/detokenize", {"model": "strict", "tokens": ids}).json()
    assert text["prompt"] == "[user]Hi[assistant]"


@pytest.mark.case(96)
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize(
    "arguments", ['{"city": "Paris"}', "", "null", "{}", '{"a": [1, {}]}', "{"]
)
def test_arguments_of_earlier_calls_are_text_on_the_wire(
    engine: Server, model: str, arguments: str
) -> None:
    messages = [
        said("user"),
        said("assistant", None, tool_calls=call(arguments)),
        said("tool", '{"temp": 20}', tool_call_id="call_1"),
    ]
    assert post(engine, model, messages).status == 200


ORDERS = [
    [said("user"), said("user"), said("assistant"), said("user")],
    [said("user"), said("assistant"), said("assistant"), said("user")],
    [said("user"), said("system"), said("user")],
    [said("user"), said("assistant")],
    [said("system"), said("system"), said("user")],
    [said("assistant"), said("user")],
    [said("system")],
]


@pytest.mark.case(97)
@pytest.mark.parametrize("messages", ORDERS)
def test_order_of_roles_is_never_a_server_error(
    engine: Server, error_of: ErrorOf, messages: list[dict[str, Any]]
) -> None:
    answer = post(engine, "strict", messages)
    if answer.status != 200:
        assert answer.status == 400
        error = error_of(answer)
        assert error["param"] == "messages"
        assert "must alternate" in error["message"]


@pytest.mark.case(97)
def test_neighbours_of_one_role_are_merged_for_a_strict_template(engine: Server) -> None:
    assert post(engine, "strict", ORDERS[0]).status == 200
    assert post(engine, "strict", ORDERS[1]).status == 200


@pytest.mark.case(97)
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("messages", ORDERS)
def test_order_of_roles_is_free_where_the_template_leaves_it(
    engine: Server, model: str, messages: list[dict[str, Any]]
) -> None:
    assert post(engine, model, messages).status == 200


@pytest.mark.case(98, 99)
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize(
    "message",
    [
        said("assistant", ""),
        said("assistant", None),
        said("assistant", []),
        said("assistant", "ok", tool_calls=[]),
        said("assistant", "ok", tool_calls=None),
        said("assistant", "", tool_calls=[]),
    ],
)
def test_empty_assistant_messages_and_empty_lists_of_calls_are_welcome(
    engine: Server, model: str, message: dict[str, Any]
) -> None:
    assert post(engine, model, [said("user"), message, said("user", "Hi")]).status == 200


@pytest.mark.case(100)
@pytest.mark.parametrize(
    ("messages", "index"),
    [
        ([said("user"), said("tool", tool_call_id="call_1")], 1),
        ([said("user"), said("tool")], 1),
        (
            [
                said("user"),
                said("assistant", None, tool_calls=call("{}")),
                said("tool", tool_call_id="other"),
            ],
            2,
        ),
    ],
)
def test_tool_result_that_answers_no_call_is_named(
    engine: Server, error_of: ErrorOf, messages: list[dict[str, Any]], index: int
) -> None:
    answer = post(engine, "tiny-llm", messages)
    assert answer.status == 400
    assert error_of(answer)["param"].startswith(f"messages[{index}]")
