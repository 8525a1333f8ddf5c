"""What OpenAI's and Anthropic's own clients build upon the API: typed answers, streams put together,
and a loop over two tools with them; on a scripted and on a real model."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest
from pydantic import BaseModel

from refloat.testing.harness import Server
from tests.contract.agent_server import (
    BOB,
    CALLS,
    PERSON,
    RESULTS,
    SCRIPTED,
    TINY,
    Task,
    agent_server,
)
from tests.late_import import late_import

if TYPE_CHECKING:
    import anthropic
    import openai
else:
    anthropic = late_import("anthropic")
    openai = late_import("openai")

MAX_TURNS = 5
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
    "additionalProperties": False,
}

pytestmark = pytest.mark.process


class Person(BaseModel):
    name: str
    age: int


class GetWeather(BaseModel):
    """Weather of a city."""

    city: str


class GetTime(BaseModel):
    """Time in a city."""

    city: str


def chat_tools() -> list[Any]:
    return [
        openai.pydantic_function_tool(GetWeather, name="get_weather"),
        openai.pydantic_function_tool(GetTime, name="get_time"),
    ]


@pytest.fixture(
    scope="module",
    params=[SCRIPTED, pytest.param(TINY, marks=[pytest.mark.engine, pytest.mark.soak])],
    ids=lambda task: task.name,
)
def task(request: pytest.FixtureRequest) -> Task:
    return request.param


@pytest.fixture(scope="module")
def server(task: Task) -> Iterator[Server]:
    with agent_server(task) as started:
        yield started


@pytest.fixture
def sdk(server: Server) -> Iterator[Any]:
    # Untyped: bodies are built by loops, which the client's overloads do not follow.
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0) as client:
        yield client


def streamed_chat(sdk: Any, **body: Any) -> Any:
    """By the streaming helper; its own events say the same as what it puts together."""
    with sdk.chat.completions.stream(**body) as stream:
        events = list(stream)
        final = stream.get_final_completion()
    deltas = [event.delta for event in events if event.type == "content.delta"]
    assert "".join(deltas) == (final.choices[0].message.content or "")
    done = [
        event.arguments for event in events if event.type == "tool_calls.function.arguments.done"
    ]
    calls = final.choices[0].message.tool_calls or ()
    assert done == [call.function.arguments for call in calls]
    return final


def parsed_chat(sdk: Any, **body: Any) -> Any:
    return sdk.chat.completions.parse(**body)


@pytest.mark.parametrize("ask", [parsed_chat, streamed_chat])
def test_chat_helpers_loop_over_two_tools(sdk: Any, task: Task, ask: Any) -> None:
    messages: list[Any] = [{"role": "user", "content": task.question}]
    calls: list[list[str]] = []
    message: Any = None
    for _ in range(MAX_TURNS):
        completion = ask(sdk, model=task.name, messages=messages, tools=chat_tools(), temperature=0)
        message = completion.choices[0].message
        if not message.tool_calls:
            break
        messages.append(message)
        for call in message.tool_calls:
            calls.append([call.function.name, call.function.parsed_arguments.city])
            result = RESULTS[call.function.name]
            messages.append({"role": "tool", "tool_call_id": call.id, "content": result})
    assert message.content == task.answer
    assert calls == CALLS


@pytest.mark.parametrize("ask", [parsed_chat, streamed_chat])
def test_chat_helpers_give_a_typed_answer(sdk: Any, task: Task, ask: Any) -> None:
    messages = [{"role": "user", "content": PERSON}]
    answer = ask(sdk, model=task.name, messages=messages, response_format=Person, temperature=0)
    assert answer.choices[0].message.parsed == Person.model_validate(BOB)


def test_responses_helpers_loop_over_two_tools(sdk: Any, task: Task) -> None:
    tools = [
        {"type": "function", "name": name, "parameters": SCHEMA, "strict": True} for name in RESULTS
    ]
    turn: Any = task.question
    previous: str | None = None
    calls: list[list[str]] = []
    final: Any = None
    for _ in range(MAX_TURNS):
        with sdk.responses.stream(
            model=task.name, input=turn, tools=tools, previous_response_id=previous, temperature=0
        ) as stream:
            list(stream)
            final = stream.get_final_response()
        made = [item for item in final.output if item.type == "function_call"]
        if not made:
            break
        calls += [[item.name, item.parsed_arguments["city"]] for item in made]
        previous = final.id
        turn = [
            {
                "type": "function_call_output",
                "call_id": item.call_id,
                "output": RESULTS[item.name],
            }
            for item in made
        ]
    assert final.output_text == task.answer
    assert calls == CALLS


def test_responses_helper_gives_a_typed_answer(sdk: Any, task: Task) -> None:
    answer = sdk.responses.parse(model=task.name, input=PERSON, text_format=Person, temperature=0)
    assert answer.output_parsed == Person.model_validate(BOB)


def test_messages_helper_loops_over_two_tools(server: Server, task: Task) -> None:
    tools: Any = [{"name": name, "input_schema": SCHEMA} for name in RESULTS]
    messages: list[Any] = [{"role": "user", "content": task.question}]
    calls: list[list[str]] = []
    final: Any = None
    with anthropic.Anthropic(base_url=server.url, api_key="none", max_retries=0) as client:
        for _ in range(MAX_TURNS):
            with client.messages.stream(
                model=task.name, messages=messages, tools=tools, max_tokens=500
            ) as stream:
                final = stream.get_final_message()
            made = [block for block in final.content if block.type == "tool_use"]
            if not made:
                break
            calls += [[block.name, block.input["city"]] for block in made]
            results: list[Any] = [
                {"type": "tool_result", "tool_use_id": block.id, "content": RESULTS[block.name]}
                for block in made
            ]
            messages += [
                {"role": "assistant", "content": final.content},
                {"role": "user", "content": results},
            ]
    assert final.content[-1].text == task.answer
    assert calls == CALLS
