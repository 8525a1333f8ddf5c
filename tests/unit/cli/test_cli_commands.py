"""`refloat models`, `config` and `status` as functions, without a server of ours."""

import gc
import importlib
import json
import os
import shutil
import sys
import threading
from collections.abc import Generator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from refloat.cli import application
from refloat.cli.exit_codes import ExitCode
from refloat.cli.main import main
from refloat.cli.uncollected import uncollected
from refloat.models.in_use import using
from refloat.models.progress import ignore_progress
from refloat.models.store import EntryKey, Store

DATA = Path(__file__).parents[2] / "data"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty `$REFLOAT_HOME`."""
    monkeypatch.setenv("REFLOAT_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def _run(*arguments: str) -> int:
    return application.run(arguments)


# --- models ---------------------------------------------------------------------------------------


def test_models_list_and_rm_follow_the_cache(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = Store(home / "v1" / "models")
    store.obtain(EntryKey("owner/name", "x", {}), lambda _: None, ignore_progress)
    store.obtain(EntryKey("old", "x", {"openvino": "1"}), lambda _: None, ignore_progress)
    assert _run("models", "list") == ExitCode.OK
    rows = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    assert [(row[0], row[2]) for row in rows] == [("owner/name", "current"), ("old", "outdated")]
    assert _run("models", "rm", "old") == ExitCode.OK
    assert "removed old-" in capsys.readouterr().out
    assert _run("models", "rm", "old") == ExitCode.NO_MODEL
    assert "old is not in the cache" in capsys.readouterr().err


def test_models_rm_of_a_model_in_use_needs_force(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = Store(home / "v1" / "models")
    path = store.obtain(EntryKey("owner/name", "x", {}), lambda _: None, ignore_progress)
    with using(path), using(path):
        assert _run("models", "rm", "owner/name") == ExitCode.INTERNAL
        assert "used by a running server" in capsys.readouterr().err
        assert path.exists()
        assert _run("models", "rm", "--force", "owner/name") == ExitCode.OK
    path = store.obtain(EntryKey("owner/name", "x", {}), lambda _: None, ignore_progress)
    assert _run("models", "rm", "owner/name") == ExitCode.OK
    assert not path.exists()


@pytest.mark.parametrize("target", ["a pipe nobody reads", "/dev/full"])
def test_output_that_cannot_be_written_is_no_traceback(
    target: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if target == "/dev/full":
        descriptor = os.open(target, os.O_WRONLY)
    else:
        unread, descriptor = os.pipe()
        os.close(unread)
    with open(descriptor, "w") as out:
        monkeypatch.setattr(sys, "stdout", out)
        code = main(["--version"])
    assert code == (1 if target == "/dev/full" else 0)
    assert ("cannot write" in capsys.readouterr().err) is (code == 1)


def test_models_pull_of_a_folder_prints_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert _run("models", "pull", str(DATA / "tiny-llm")) == ExitCode.OK
    assert capsys.readouterr().out.strip() == str(DATA / "tiny-llm")
    assert _run("models", "pull", "scripted") == ExitCode.OK


def test_models_pull_without_context_length_is_still_pulled(tmp_path: Path) -> None:
    folder = Path(shutil.copytree(DATA / "tiny-llm", tmp_path / "m"))
    (folder / "config.json").unlink()
    assert _run("models", "pull", str(folder)) == ExitCode.OK


def test_models_pull_of_nothing_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert _run("models", "pull", "/nope") == ExitCode.NO_MODEL
    assert capsys.readouterr().err == "refloat: there is no file or folder /nope\n"


# --- config ---------------------------------------------------------------------------------------


def test_config_check_of_a_good_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "c.yaml"
    file.write_text("models: [{model: scripted}, {model: scripted, name: b}]\n")
    assert _run("config", "check", str(file)) == ExitCode.OK
    assert capsys.readouterr().out == f"{file}: ok, 2 models\n"


@pytest.mark.parametrize(
    "text",
    ["server: {prot: 1}\n", "server: {host: 0.0.0.0}\n", "models: [{model: a}, {model: a}]\n"],
)
def test_config_check_of_a_bad_file_is_exit_code_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    file = tmp_path / "c.yaml"
    file.write_text(text)
    assert _run("config", "check", str(file)) == ExitCode.USAGE
    assert capsys.readouterr().err.startswith("refloat: ")


def test_config_show_names_origins(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REFLOAT_PORT", "9000")
    assert _run("config", "show") == ExitCode.OK
    line = next(li for li in capsys.readouterr().out.splitlines() if li.startswith("  port:"))
    assert line.split() == ["port:", "9000", "#", "environment", "REFLOAT_PORT"]


# --- status ---------------------------------------------------------------------------------------


class _Answers(BaseHTTPRequestHandler):
    status = 200
    body: Any = None
    authorization: str | None = None
    asked: Any = None

    def log_message(self, format: str, *args: object) -> None:
        """Silent."""

    def do_GET(self) -> None:
        assert self.path == "/health"
        self._answer()

    def do_POST(self) -> None:
        length = int(self.headers["Content-Length"])
        type(self).asked = (self.path, json.loads(self.rfile.read(length)))
        self._answer()

    def _answer(self) -> None:
        type(self).authorization = self.headers.get("Authorization")
        body = self.body if isinstance(self.body, bytes) else json.dumps(self.body).encode()
        self.send_response(self.status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@pytest.fixture
def answers() -> Generator[tuple[str, type[_Answers]]]:
    """A server whose one answer the test sets."""

    class Handler(_Answers):
        pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/", Handler
        server.shutdown()
        thread.join()


_MODEL = {
    "name": "m[bold]",
    "state": "failed",
    "reason": "the device [gpu] is gone",
    "context_length": 4096,
    "workers": [{"state": "failed", "pid": 7}, {"state": "ready", "pid": None}],
    "restarts": {"death": 2},
    "counts": {"running": 1.0},
}


def test_status_of_a_ready_server_is_0(
    answers: tuple[str, type[_Answers]], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    url, handler = answers
    handler.body = {"status": "ok", "version": "1", "models": [_MODEL]}
    keys = tmp_path / "keys"
    keys.write_text("secret\n")
    assert _run("status", "--url", url, "--api-key-file", str(keys)) == ExitCode.OK
    out = capsys.readouterr().out
    assert "m[bold]" in out
    assert "m[bold]: the device [gpu] is gone" in out
    assert handler.authorization == "Bearer secret"
    assert _run("status", "--url", url, "--json") == ExitCode.OK
    assert json.loads(capsys.readouterr().out)["models"] == [_MODEL]


def test_status_says_what_a_ready_model_serves_without(
    answers: tuple[str, type[_Answers]], capsys: pytest.CaptureFixture[str]
) -> None:
    url, handler = answers
    spare = {"state": "failed", "role": "spare", "reason": "no memory"}
    serving = {"state": "ready", "role": "serving", "pid": 7}
    model = {"name": "m", "state": "ready", "notice": "a small cache", "workers": [serving, spare]}
    handler.body = {"status": "ok", "models": [model]}
    assert _run("status", "--url", url) == ExitCode.OK
    out = capsys.readouterr().out
    assert "m: a small cache" in out
    assert "m: the spare: no memory" in out


def test_status_of_an_unready_server_is_5(answers: tuple[str, type[_Answers]]) -> None:
    url, handler = answers
    handler.body = {"status": "unready", "models": []}
    assert _run("status", "--url", url) == ExitCode.NOT_READY


@pytest.mark.parametrize(
    ("status", "body", "reason"),
    [
        (401, {}, "answers with status 401; give its key with --api-key-file"),
        (500, {}, "answers with status 500"),
        (200, b"<html>", "no Refloat server"),
        (200, [], "no Refloat server"),
        (200, {"models": 3}, "no Refloat server"),
    ],
)
def test_status_of_a_strange_answer_is_6(
    answers: tuple[str, type[_Answers]],
    capsys: pytest.CaptureFixture[str],
    status: int,
    body: object,
    reason: str,
) -> None:
    url, handler = answers
    handler.status, handler.body = status, body
    assert _run("status", "--url", url) == ExitCode.UNREACHABLE
    assert reason in capsys.readouterr().err


def test_status_of_nothing_is_6_and_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert _run("status", "--url", "http://127.0.0.1:9") == ExitCode.UNREACHABLE
    error = capsys.readouterr().err
    assert "no server answers there" in error
    assert error.count("\n") == 1
    assert _run("status", "--url", "ftp://x") == ExitCode.USAGE


@pytest.mark.parametrize(
    ("options", "code", "reason"),
    [
        (("--timeout-s", "-1"), ExitCode.USAGE, "the timeout must be above 0"),
        (("--timeout-s", "nan"), ExitCode.USAGE, "the timeout must be above 0"),
        (("--timeout-s", "1e300"), ExitCode.USAGE, "at most 86400 seconds"),
        (("--url", "http://a..b"), ExitCode.UNREACHABLE, "no server answers there"),
        (("--url", "http://127.0.0.1:9/\u00fc"), ExitCode.UNREACHABLE, "no server answers there"),
    ],
)
def test_status_of_what_cannot_be_asked_is_one_line(
    capsys: pytest.CaptureFixture[str], options: tuple[str, ...], code: ExitCode, reason: str
) -> None:
    assert _run("status", *options) == code
    error = capsys.readouterr().err
    assert reason in error
    assert error.count("\n") == 1


# --- reset ----------------------------------------------------------------------------------------


def test_reset_of_a_failed_model_says_what_follows(
    answers: tuple[str, type[_Answers]], capsys: pytest.CaptureFixture[str]
) -> None:
    url, handler = answers
    handler.body = {"model": "org/m n", "state": "failed", "restarts": True}
    assert _run("reset", "org/m n", "--url", url, "--accept-probe") == ExitCode.OK
    assert handler.asked == ("/admin/models/org/m%20n/reset", {"accept_probe": True})
    assert capsys.readouterr().out == "org/m n was failed; it is started again\n"
    handler.body = {"model": "m", "state": "ready", "restarts": False}
    assert _run("reset", "m", "--url", url) == ExitCode.OK
    assert handler.asked == ("/admin/models/m/reset", {"accept_probe": False})
    assert "nothing to start again" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("status", "body", "code", "reason"),
    [
        (404, {"error": {"message": "no such model"}}, ExitCode.USAGE, "404: no such model"),
        (401, {}, ExitCode.USAGE, "give its key with --api-key-file"),
        (200, {"models": []}, ExitCode.UNREACHABLE, "no Refloat server"),
    ],
)
def test_reset_that_is_refused_says_why(
    answers: tuple[str, type[_Answers]],
    capsys: pytest.CaptureFixture[str],
    status: int,
    body: object,
    code: ExitCode,
    reason: str,
) -> None:
    url, handler = answers
    handler.status, handler.body = status, body
    assert _run("reset", "m", "--url", url) == code
    assert reason in capsys.readouterr().err


def test_reset_without_a_server_is_6(capsys: pytest.CaptureFixture[str]) -> None:
    assert _run("reset", "m", "--url", "http://127.0.0.1:9") == ExitCode.UNREACHABLE
    assert "no server answers there" in capsys.readouterr().err


def test_collector_rests_for_an_import_and_not_after_one_that_failed() -> None:
    with uncollected():
        assert not gc.isenabled()
    with pytest.raises(ImportError), uncollected():
        importlib.import_module("refloat.nothing")
    assert gc.isenabled()
