"""An agent with two tools by langchain-openai. Arguments: base URL, model, question."""

import json
import sys

from langchain_core.messages import AIMessageChunk, HumanMessage, ToolMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from pydantic import BaseModel

calls: list[list[str]] = []


class Person(BaseModel):
    name: str
    age: int


@tool
def get_weather(city: str) -> str:
    """Weather of a city."""
    calls.append(["get_weather", city])
    return "sunny"


@tool
def get_time(city: str) -> str:
    """Time in a city."""
    calls.append(["get_time", city])
    return "noon"


TOOLS = {"get_weather": get_weather, "get_time": get_time}


def run(model, question: str, *, stream: bool) -> str:
    bound = model.bind_tools(list(TOOLS.values()))
    messages = [HumanMessage(question)]
    for _ in range(5):
        if stream:
            answer = AIMessageChunk(content="")
            for chunk in bound.stream(messages):
                answer += chunk
        else:
            answer = bound.invoke(messages)
        messages.append(answer)
        if not answer.tool_calls:
            return answer.content
        for call in answer.tool_calls:
            result = TOOLS[call["name"]].invoke(call["args"])
            messages.append(ToolMessage(result, tool_call_id=call["id"]))
    raise AssertionError("it never answered")


def main(url: str, name: str, question: str) -> None:
    model = ChatOpenAI(model=name, base_url=url, api_key="none", temperature=0)
    whole = run(model, question, stream=False)
    made, calls[:] = list(calls), []
    text = run(model, question, stream=True)
    typed = model.with_structured_output(Person, method="json_schema")
    person = typed.invoke("Make JSON with name=Bob, age=42")
    json.dump(
        {
            "answer": whole,
            "calls": made,
            "streamed": text,
            "calls_streamed": calls,
            "person": person.model_dump(),
        },
        sys.stdout,
    )


main(*sys.argv[1:])
