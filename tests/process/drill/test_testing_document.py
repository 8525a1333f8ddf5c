"""The examples of docs/TESTING.md work as printed."""

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from refloat.testing.harness import Server

DOCUMENT = Path(__file__).parents[3] / "docs" / "TESTING.md"


def block(language: str) -> str:
    """The one block of a language."""
    (text,) = re.findall(rf"^```{language}\n(.*?)^```$", DOCUMENT.read_text(), re.M | re.S)
    return text


def without_id(choice: Any) -> Any:
    for call in choice["message"]["tool_calls"]:
        assert call.pop("id").startswith("call_")
    return choice


@pytest.mark.process
def test_scripted_agent_is_answered_as_printed(tmp_path: Path) -> None:
    document = DOCUMENT.read_text()
    (commands,) = re.findall(r"^```console\n(\$ refloat serve.*?)^```$", document, re.M | re.S)
    serve, curl = commands.removeprefix("$ ").split("\n$ ")
    script = tmp_path / "agent.yaml"
    script.write_text(block("yaml"))
    arguments = [str(script) if a == script.name else a for a in shlex.split(serve)[2:]]
    _, path, *_, body = shlex.split(curl)
    with Server.start(arguments, env={"REFLOAT_HOME": str(tmp_path / "home")}) as server:
        client = server.client()
        answer = client.post(path.removeprefix("http://127.0.0.1:8000"), json.loads(body))
        assert client.chat("rain").text == "Take an umbrella. ☂"
    [choice] = answer.json()["choices"]
    assert without_id(choice) == without_id(json.loads(block("json")))


@pytest.mark.process
def test_example_passes_as_printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REFLOAT_HOME", str(tmp_path / "home"))
    file = tmp_path / "test_example.py"
    file.write_text(block("python"))
    command = [sys.executable, "-m", "pytest", "-q", "--rootdir", str(tmp_path), str(file)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=50, check=False)
    assert done.returncode == 0, done.stdout
    assert "2 passed" in done.stdout
