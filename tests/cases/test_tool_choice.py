"""Calls that have to be made: of any function, of a named one, in the model's own format."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from refloat.testing.client import Answer, Client
from refloat.testing.harness import Server

pytestmark = pytest.mark.process

ErrorOf = Callable[[Answer], dict[str, Any]]
OFF = {"chat_template_kwargs": {"enable_thinking": False}}
CODER = (
    "<tool_call>\n<function=get_weather>\n<parameter=city>\nOslo\n</parameter>\n</function>\n"
    "</tool_call>"
)


def tool(name: str, description: str = "", **properties: Any) -> dict[str, Any]:
    parameters = {"type": "object", "properties": properties, "required": list(properties)}
    function = {"name": name, "description": description, "parameters": parameters}
    return {"type": "function", "function": function}


TOOLS = [tool("get_weather", city={"type": "string"}), tool("get_time")]


def named(name: str) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name}}


@pytest.fixture(scope="module")
def chooser_server(start_server: Callable[..., Server]) -> Iterator[Server]:
    time = '<tool_call>\n{"name": "get_time", "arguments": {}}\n</tool_call>'
    rules = [
        {"match": "time", "text": time},
        {"match": "wrong", "text": time.replace("{}", '{"zone": 1}')},
        {"match": "form", "text": '{"said": "It is warm."}'},
        {"match": "", "text": "It is warm."},
    ]
    coder = [{"match": "", "text": CODER}]
    models = [
        {"model": "scripted", "name": "plain", "engine_options": {"rules": rules}},
        {
            "model": "scripted",
            "name": "coder",
            "tool_parser": "qwen3_coder",
            "engine_options": {"rules": coder},
        },
    ]
    with start_server(config={"models": models, "server": {"ready_when": "all"}}) as server:
        yield server


@pytest.fixture
def client(chooser_server: Server, serves: Callable[[Server], None]) -> Iterator[Client]:
    yield chooser_server.client()
    serves(chooser_server)


def calls_of(client: Client, content: str, **fields: Any) -> list[tuple[str, Any]]:
    """The calls of an answer, the same in both modes and nothing beside them."""
    answer = client.chat(content, tools=TOOLS, **fields)
    assert answer.status == 200, answer.body
    [choice] = answer.json()["choices"]
    assert choice["finish_reason"] == "tool_calls"
    assert not choice["message"]["content"]
    with client.chat_stream(content, tools=TOOLS, **fields) as stream:
        told = stream.transcript()
    assert told.text() == ""
    assert told.finish_reasons() == [(0, "tool_calls")]
    return [(name, json.loads(arguments)) for name, arguments in answer.calls]


@pytest.mark.case(69)
def test_named_function_is_the_one_that_is_called(client: Client, error_of: ErrorOf) -> None:
    assert calls_of(client, "time?", model="plain", tool_choice=named("get_time")) == [
        ("get_time", {})
    ]
    fields = {"model": "plain", "tools": TOOLS}
    other = client.chat("time?", tool_choice=named("get_weather"), **fields)
    assert other.status == 400  # the script would call another one
    unknown = client.chat("time?", tool_choice=named("get_money"), **fields)
    assert unknown.status == 400
    assert error_of(unknown)["param"] == "tool_choice"


@pytest.mark.case(70)
def test_required_call_is_enforced(client: Client) -> None:
    assert calls_of(client, "time?", model="plain", tool_choice="required") == [("get_time", {})]
    talk = client.chat("How are you?", model="plain", tools=TOOLS, tool_choice="required")
    assert talk.status == 400  # the script would talk


@pytest.mark.engine
@pytest.mark.case(70, 120)
@pytest.mark.parametrize(
    "text", ["", 'a "quoted" [word] {brace}\n', "🚲 東京 \\ </tool_call>", "long " * 40]
)
def test_real_model_has_to_call_whatever_the_description_says(engine: Server, text: str) -> None:
    tools = [tool("get_weather", text, day={"enum": ["today", "tomorrow"]})]
    answer = engine.client().chat(
        "Hello!", model="tiny-llm", tools=tools, tool_choice="required", max_tokens=200,
        parallel_tool_calls=False, **OFF,
    )  # fmt: skip
    assert answer.status == 200, answer.body
    [(name, arguments)] = answer.calls
    assert name == "get_weather"
    assert json.loads(arguments)["day"] in ("today", "tomorrow")
    assert answer.json()["choices"][0]["finish_reason"] == "tool_calls"


@pytest.mark.case(70)
def test_tools_and_a_schema_go_together(client: Client) -> None:
    schema = {"type": "object", "properties": {"said": {"type": "string"}}, "required": ["said"]}
    form = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}
    told = calls_of(client, "time?", model="plain", response_format=form)
    assert told == [("get_time", {})]
    answer = client.chat("form", model="plain", tools=TOOLS, response_format=form)
    assert json.loads(answer.text) == {"said": "It is warm."}
    talk = client.chat("How are you?", model="plain", tools=TOOLS, response_format=form)
    assert talk.status == 400  # neither a call nor of that form


@pytest.mark.case(70)
def test_strict_tool_holds_what_the_model_calls_and_nothing_that_it_says(client: Client) -> None:
    strict = [{**each, "function": {**each["function"], "strict": True}} for each in TOOLS]
    fields = {"model": "plain", "tools": strict}
    assert [name for name, _ in client.chat("time?", **fields).calls] == ["get_time"]
    assert client.chat("How are you?", **fields).text == "It is warm."
    for tools, status in ((strict, 400), (TOOLS, 200)):  # the script would call it otherwise
        assert client.chat("wrong", model="plain", tools=tools).status == status
    assert client.chat("wrong", tool_choice="none", **fields).status == 200


@pytest.mark.case(70)
def test_strict_tool_whose_schema_cannot_be_held_is_refused_by_its_path(
    client: Client, error_of: ErrorOf
) -> None:
    odd = tool("odd", a={"if": {}})
    assert client.chat("time?", model="plain", tools=[*TOOLS, odd]).status == 200
    odd["function"]["strict"] = True
    answer = client.chat("time?", model="plain", tools=[*TOOLS, odd])
    assert answer.status == 400
    assert error_of(answer)["param"] == "tools[2].function.parameters.properties.a.if"
    odd["function"]["strict"] = False
    strict = {**TOOLS[1], "function": {**TOOLS[1]["function"], "strict": True}}
    answer = client.chat("time?", model="plain", tools=[strict, odd])
    assert [name for name, _ in answer.calls] == ["get_time"]


@pytest.mark.case(71)
def test_required_call_in_a_format_that_is_no_json(client: Client) -> None:
    for choice in ("required", named("get_weather")):
        told = calls_of(client, "go", model="coder", tool_choice=choice)
        assert told == [("get_weather", {"city": "Oslo"})]
