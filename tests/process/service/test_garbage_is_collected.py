"""Every program starts without collections of garbage, and none goes on without."""

import os
import signal
from pathlib import Path

import pytest

from refloat.testing.harness import Server
from refloat.testing.patience import eventually

pytestmark = pytest.mark.process

#: Imported by each program at its start: on a signal, it says whether it collects.
SITE = """
import gc, os, signal
def say(number, frame):
    with open(os.path.join(os.environ["SAYS_IN"], str(os.getpid())), "w") as file:
        file.write(str(gc.isenabled()))
signal.signal(signal.SIGUSR2, say)
"""


def test_gateway_and_its_children_collect_garbage_once_they_are_up(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(SITE)
    says = tmp_path / "says"
    says.mkdir()
    env = {
        "PYTHONPATH": str(tmp_path),
        "SAYS_IN": str(says),
        "REFLOAT_HOME": str(tmp_path / "home"),
    }
    with Server.start(["scripted"], env=env) as server:
        schema = {"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "string"}}}
        server.client().chat("Hi", response_format=schema)  # so that a trial's child is there, too
        programs = {child.pid: child.cmdline()[2] for child in server.children()}
        assert set(programs.values()) == {"refloat.prep", "refloat.worker", "refloat.prep.trial"}
        for pid in (server.process.pid, *programs):
            os.kill(pid, signal.SIGUSR2)
            answer = eventually(lambda pid=pid: _read(says / str(pid)), what="an answer")
            assert answer == "True", programs.get(pid, "gateway")


def _read(path: Path) -> str:
    return path.read_text() if path.exists() else ""
