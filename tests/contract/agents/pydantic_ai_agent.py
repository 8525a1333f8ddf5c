"""An agent with two tools by pydantic-ai. Arguments: base URL, model, question."""

import json
import sys

from pydantic import BaseModel
from pydantic_ai import Agent, NativeOutput
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider


class Person(BaseModel):
    name: str
    age: int


def main(url: str, name: str, question: str) -> None:
    model = OpenAIChatModel(name, provider=OpenAIProvider(base_url=url, api_key="none"))
    calls: list[list[str]] = []
    agent = Agent(model)

    @agent.tool_plain
    def get_weather(city: str) -> str:
        """Weather of a city."""
        calls.append(["get_weather", city])
        return "sunny"

    @agent.tool_plain
    def get_time(city: str) -> str:
        """Time in a city."""
        calls.append(["get_time", city])
        return "noon"

    whole = agent.run_sync(question).output
    made, calls[:] = list(calls), []
    streamed = agent.run_stream_sync(question)
    text = "".join(streamed.stream_text(delta=True, debounce_by=None))
    person = Agent(model, output_type=NativeOutput(Person)).run_sync(
        "Make JSON with name=Bob, age=42"
    )
    json.dump(
        {
            "answer": whole,
            "calls": made,
            "streamed": text,
            "calls_streamed": calls,
            "person": person.output.model_dump(),
        },
        sys.stdout,
    )


main(*sys.argv[1:])
