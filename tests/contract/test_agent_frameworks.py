"""The frameworks that agents are built with, as programs of their own: a loop over two tools, whole
and streamed, and a typed answer; on a scripted and on a real model."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from refloat.testing.harness import Server
from tests.contract.agent_server import BOB, CALLS, PERSON, SCRIPTED, TINY, Task, agent_server

PROGRAMS = Path(__file__).parent / "agents"
_LIMIT_S = 300
LLM_TOOLS = """
def get_weather(city: str) -> str:
    "Weather of a city."
    return "sunny"

def get_time(city: str) -> str:
    "Time in a city."
    return "noon"
"""

pytestmark = [pytest.mark.soak, pytest.mark.process, pytest.mark.engine]


@pytest.fixture(scope="module", params=[SCRIPTED, TINY], ids=lambda task: task.name)
def task(request: pytest.FixtureRequest) -> Task:
    return request.param


@pytest.fixture(scope="module")
def server(task: Task) -> Iterator[Server]:
    with agent_server(task) as started:
        yield started


def run(command: list[str], **env: str) -> str:
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=_LIMIT_S, env={**os.environ, **env}
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("program", ["pydantic_ai_agent", "langchain_agent"])
def test_framework_calls_two_tools_and_answers(server: Server, program: str, task: Task) -> None:
    script = str(PROGRAMS / f"{program}.py")
    told = run([sys.executable, script, f"{server.url}/v1", task.name, task.question])
    assert json.loads(told) == {
        "answer": task.answer,
        "calls": CALLS,
        "streamed": task.answer,
        "calls_streamed": CALLS,
        "person": BOB,
    }


@pytest.mark.parametrize("mode", [(), ("--no-stream",)], ids=["stream", "whole"])
def test_llm_command_calls_two_tools_and_answers(
    server: Server, task: Task, mode: tuple[str, ...], tmp_path: Path
) -> None:
    described: dict[str, Any] = {
        "model_id": "it",
        "model_name": task.name,
        "api_base": f"{server.url}/v1",
        "supports_tools": True,
        "supports_schema": True,
    }
    (tmp_path / "extra-openai-models.yaml").write_text(yaml.safe_dump([described]))
    llm = [str(Path(sys.executable).with_name("llm")), "-m", "it", *mode]
    tools = ["--functions", LLM_TOOLS]
    told = run([*llm, *tools, task.question], LLM_USER_PATH=str(tmp_path))
    assert told.strip() == task.answer
    made = run([*llm, "--schema", "name, age int", PERSON], LLM_USER_PATH=str(tmp_path))
    assert json.loads(made) == BOB
