"""Histories as agents really send them, through templates that never thought of them."""

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from refloat.testing.client import Answer
from refloat.testing.harness import Server

pytestmark = [pytest.mark.process, pytest.mark.engine]

DATA = Path(__file__).parents[1] / "data"
CHAT = "/v1/chat/completions"
MODELS = ["tiny-llm", "tiny-scripted"]
ErrorOf = Callable[[Answer], dict[str, Any]]

#: Insists on taking turns, as templates of the Gemma and Mistral families do.
STRICT = (
    "{{ bos_token }}{% for m in messages %}"
    "{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}"
    "{{ raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}"
    "{% endif %}[{{ m.role }}]{{ m.content | trim }}{% endfor %}"
    "{% if add_generation_prompt %}[assistant]{% endif %}"
)


@pytest.fixture(scope="module")
def strict_server(
    start_server: Callable[..., Server], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    """A model with such a template, and with a null `bos_token`."""
    folder = tmp_path_factory.mktemp("models") / "strict"
    shutil.copytree(DATA / "tiny-llm", folder)
    config = json.loads((folder / "tokenizer_config.json").read_text())
    (folder / "tokenizer_config.json").write_text(json.dumps({**config, "bos_token": None}))
    template = folder.parent / "strict.jinja"
    template.write_text(STRICT)
    model = {"model": str(folder), "name": "strict", "chat_template": str(template)}
    with start_server(config={"models": [model]}) as server:
        yield server


@pytest.fixture
def strict(strict_server: Server, serves: Callable[[Server], None]) -> Iterator[Server]:
    yield strict_server
    serves(strict_server)


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
def test_null_bos_token_is_an_empty_text(strict: Server) -> None:
    messages = [said("user", "Hi")]
    assert post(strict, "strict", messages).status == 200
    body = {"model": "strict", "messages": messages}
    ids = strict.client().post("/v1/tokenize", body).json()["tokens"]
    text = strict.client().post("/v1/detokenize", {"model": "strict", "tokens": ids}).json()
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
    strict: Server, error_of: ErrorOf, messages: list[dict[str, Any]]
) -> None:
    answer = post(strict, "strict", messages)
    if answer.status != 200:
        assert answer.status == 400
        error = error_of(answer)
        assert error["param"] == "messages"
        assert "must alternate" in error["message"]


@pytest.mark.case(97)
def test_neighbours_of_one_role_are_merged_for_a_strict_template(strict: Server) -> None:
    assert post(strict, "strict", ORDERS[0]).status == 200
    assert post(strict, "strict", ORDERS[1]).status == 200


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
