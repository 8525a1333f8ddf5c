"""Strict tools that the model may call or not, on the real engine: what it says is free, what it calls
is as declared, also behind reasoning and behind the loss of a worker."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from refloat.testing.client import Answer
from refloat.testing.harness import Server
from tests.engine.resume.servers import client_of, model, serving

pytestmark = [pytest.mark.engine, pytest.mark.process, pytest.mark.timeout(240)]

PARAMETERS = {
    "type": "object",
    "properties": {"city": {"enum": ["Paris", "Oslo"]}, "days": {"type": "integer"}},
    "required": ["city", "days"],
    "additionalProperties": False,
}
WEATHER = {"name": "get_weather", "parameters": PARAMETERS}
#: The model does as it is told, and these are no arguments of that function.
WRONG = 'Call {"name": "get_weather", "arguments": {"town": "Rome"}}'
#: In the midst of its call.
KILLED_AT = 14


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    plan = [{"at": "token", "token": KILLED_AT, "kind": "kill"}]
    models = [model("tiny", "tiny-scripted", plan)]
    with serving(models, tmp_path_factory.mktemp("home")) as started:
        yield started


def chat(server: Server, content: str, *, strict: bool = True, thinks: bool = False) -> Answer:
    body: dict[str, Any] = {
        "model": "tiny",
        "messages": [{"role": "user", "content": content}],
        "tools": [{"type": "function", "function": {**WEATHER, "strict": strict}}],
        "max_tokens": 150,
        "temperature": 0,
        "chat_template_kwargs": {"enable_thinking": thinks},
    }
    return client_of(server).post("/v1/chat/completions", body)


def check_call(answer: Answer) -> None:
    assert answer.status == 200, answer.body
    [(name, arguments)] = answer.calls
    assert name == "get_weather"
    arguments = json.loads(arguments)
    assert arguments["city"] in ("Paris", "Oslo")
    assert type(arguments["days"]) is int


def test_strict_call_is_held_to_its_schema_where_its_worker_dies_and_where_not(
    server: Server,
) -> None:
    check_call(killed := chat(server, WRONG))
    [resumed] = server.events("generation_resumed")
    assert resumed["offset"] == KILLED_AT
    check_call(calm := chat(server, WRONG))
    assert calm.calls == killed.calls
    check_call(thought := chat(server, WRONG, thinks=True))
    assert thought.json()["choices"][0]["message"]["reasoning_content"]
    [(_, loose)] = chat(server, WRONG, strict=False).calls
    assert json.loads(loose) == {"town": "Rome"}


def test_text_beside_strict_tools_is_free(server: Server) -> None:
    said = "a < b, <tool> and </tool_call> in 東京"
    assert chat(server, f"Repeat:\n{said}").text == said
