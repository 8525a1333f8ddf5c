"""README's examples work as printed, and so do the exchanges and the Python of docs/API.md.

Only the server's address is another than in the text.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import msgspec
import pytest

from refloat.config.load import load
from refloat.engines.scripted import ScriptedOptions
from refloat.faults.plan import parse_plan
from refloat.scripted.script import load_script
from refloat.testing.client import Answer
from refloat.testing.harness import Server
from refloat.testing.patience import eventually
from tests.late_import import late_import

if TYPE_CHECKING:
    import openai
else:
    openai = late_import("openai")

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
API = (ROOT / "docs" / "API.md").read_text()
PRINTED_ADDRESS = "http://127.0.0.1:8000"

_BLOCK = re.compile(r"^```(?P<language>\w+)\n(?P<text>.*?)^```$", re.DOTALL | re.MULTILINE)
_EXAMPLE = re.compile(
    r"<!-- example: (?P<method>GET|POST) (?P<path>\S+)(?: (?P<body>\{[^\n]*\}))? -->\n"
    r"```json\n(?P<answer>.*?)^```$",
    re.DOTALL | re.MULTILINE,
)

pytestmark = pytest.mark.process


class Example(NamedTuple):
    """One exchange that docs/API.md shows."""

    method: str
    path: str
    body: Any
    answer: Any


def blocks(text: str, language: str) -> list[str]:
    """The fenced blocks of a language."""
    return [m["text"] for m in _BLOCK.finditer(text) if m["language"] == language]


def curls() -> list[str]:
    """README's curl calls, without the prompt sign."""
    return [b.removeprefix("$ ") for b in blocks(README, "console") if b.startswith("$ curl ")]


def examples() -> list[Example]:
    """All exchanges of docs/API.md."""
    return [
        Example(m["method"], m["path"], json.loads(m["body"] or "null"), json.loads(m["answer"]))
        for m in _EXAMPLE.finditer(API)
    ]


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    options = ["--name", "smollm2", "--engine-options", '{"step_s": 0.005}']
    with Server.start(["scripted", *options]) as server:
        yield server


def run(command: list[str]) -> str:
    """Run an example to its end; what it printed."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=50, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("number", range(len(curls())))
def test_curl_example_answers(server: Server, number: int) -> None:
    text = curls()[number]
    assert PRINTED_ADDRESS in text
    command = shlex.split(text.replace(PRINTED_ADDRESS, server.url))
    answer = json.loads(run([command[0], "--silent", "--show-error", *command[1:]]))
    assert answer["choices"][0]["message"]["content"]
    assert answer["model"] == "smollm2"


@pytest.mark.parametrize("number", range(len(blocks(README, "python"))))
def test_python_example_runs(server: Server, number: int) -> None:
    text = blocks(README, "python")[number]
    assert PRINTED_ADDRESS in text
    assert run([sys.executable, "-W", "error", "-c", text.replace(PRINTED_ADDRESS, server.url)])


def test_readme_has_both_kinds_of_example_in_its_first_screen() -> None:
    first_screen = "\n".join(README.splitlines()[:50])
    assert "$ curl " in first_screen
    assert "from openai import OpenAI" in first_screen
    assert "make serve" in first_screen
    assert "make test" in first_screen


def test_answer_survives_the_kill_that_readme_suggests(server: Server) -> None:
    assert "pkill -9 refloat-worker" in README
    pid = server.worker_pid()
    assert Path(f"/proc/{pid}/comm").read_text().strip() == "refloat-worker"
    parts: list[str] = []
    with (
        openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0) as client,
        client.chat.completions.create(
            model="smollm2",
            messages=[{"role": "user", "content": "Count from 1 to 40"}],
            stream=True,
        ) as stream,
    ):
        for chunk in stream:
            parts += [choice.delta.content or "" for choice in chunk.choices]
            if len(parts) == 20:
                assert server.kill_worker() == pid
    assert "".join(parts) == " ".join(map(str, range(1, 41)))
    assert server.worker_pid() != pid


def test_prompts_and_answers_are_not_logged(server: Server) -> None:
    server.client().request(
        "POST",
        "/v1/completions",
        {"model": "smollm2", "prompt": "Repeat: a secret"},
        {"X-Request-Id": "untold"},
    )

    def is_told() -> bool:
        return any(e.get("request_id") == "untold" for e in server.events("request"))

    eventually(is_told, what="the request in the log")
    assert "a secret" not in server.log_text(last=20_000)


def test_installed_program_lists_the_running_server(server: Server) -> None:
    program = Path(sys.executable).parent / "refloat"
    assert "smollm2" in run([str(program), "status", "--url", server.url])


def test_example_configuration_is_accepted() -> None:
    program = Path(sys.executable).parent / "refloat"
    path = ROOT / "packaging" / "refloat.example.yaml"
    environment = {k: v for k, v in os.environ.items() if not k.startswith("REFLOAT_")}
    command = [str(program), "config", "check", str(path)]
    subprocess.run(command, check=True, timeout=50, env=environment, capture_output=True)


# --- docs/API.md ----------------------------------------------------------------------------------


def shape(value: Any) -> Any:
    """What of an answer is the same every time: its keys, and of what kind each value is."""
    if isinstance(value, dict):
        return {key: shape(entry) for key, entry in cast("dict[str, Any]", value).items()}
    if isinstance(value, list):
        return [shape(entry) for entry in cast("list[Any]", value)[:1]]
    if isinstance(value, bool) or value is None:
        return value
    return "text" if isinstance(value, str) else "number"


@pytest.mark.parametrize("example", examples(), ids=lambda e: f"{e.method} {e.path}")
def test_documented_exchange_looks_so(server: Server, example: Example) -> None:
    client = server.client()
    answer: Answer = client.request(example.method, example.path, example.body)
    found = answer.json()
    if example.path == "/health":
        for model in found["models"]:
            model["restarts"] = {}  # another test kills the worker
    assert shape(found) == shape(example.answer)


def test_documented_python_runs() -> None:
    [text] = blocks(API, "python")
    run([sys.executable, "-W", "error", "-c", text])


def test_documented_script_is_understood(tmp_path: Path) -> None:
    file = tmp_path / "script.yaml"
    file.write_text(blocks(API, "yaml")[0])
    script = load_script(file)
    assert script.answer("the weather?").choices == ("Sunny in Zürich.",)
    assert script.answer("a guess").choices == ("heads", "tails")


def test_documented_fault_plan_is_understood(tmp_path: Path) -> None:
    file = tmp_path / "refloat.yaml"
    file.write_text(blocks(API, "yaml")[1])
    [model] = load(file=file, environ={}).config.models
    assert len(parse_plan(model.faults)) == 2
    assert msgspec.convert(model.engine_options, ScriptedOptions).step_s > 0
