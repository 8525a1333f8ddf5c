"""`refloat drill` and `refloat soak` on the scripted model, as their users call them."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from refloat.cli.exit_codes import ExitCode
from refloat.cli.main import main
from refloat.testing.harness import Server

pytestmark = [pytest.mark.process, pytest.mark.timeout(180)]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REFLOAT_HOME", str(tmp_path))


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    arguments = ["scripted", "--context-length", "4096"]
    with Server.start(arguments, env={"REFLOAT_HOME": str(tmp_path)}) as started:
        yield started


def test_drill_shows_every_trial_and_holds(capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["drill", "scripted", "--faults", "kill,raise", "--phases", "all", "--json"])
    report = json.loads(capsys.readouterr().out)
    assert report["held"], report
    assert code == ExitCode.OK
    tried = [(trial["phase"], trial["fault"]) for trial in report["trials"]]
    assert sorted(tried) == sorted(
        [(phase, act) for phase in ("loading", "prefill", "decode", "last") for act in
         ("kill", "raise")] + [("idle", "kill")]
    )  # fmt: skip
    for trial in report["trials"]:
        assert trial["statuses"] == {"200": 4}
        assert (trial["tokens_lost"], trial["tokens_repeated"]) == (0, 0)
        assert trial["texts_that_differ"] == 0
        assert trial["recorded_as"]
        assert 1 <= len(trial["pauses_s"]) <= 2, "two of four clients stream"


def test_drill_prints_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["drill", "scripted", "--faults", "segv", "--phases", "decode", "--repeats", "2"])
    table = capsys.readouterr().out
    assert code == ExitCode.OK
    assert "decode" in table
    assert "8 × 200" in table


def test_drill_of_a_model_that_is_not_there_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["drill", "/nowhere", "--faults", "kill"]) == ExitCode.NO_MODEL
    assert "/nowhere" in capsys.readouterr().err


def test_drill_of_an_unknown_fault_names_those_there_are(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["drill", "scripted", "--faults", "explode"]) == ExitCode.USAGE
    assert "context_fatal" in capsys.readouterr().err


def test_soak_ends_after_so_many_right_answers(
    server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--model", "scripted", "--requests", "8", "--scale", "0.06", "--tools", "5"]
    assert main(["soak", server.url, *arguments, "--json"]) == ExitCode.OK
    report = json.loads(capsys.readouterr().out)
    assert report["requests"] == 8
    assert report["wrong"] is None
    assert report["ttft_p50_s"] > 0


def test_soak_stops_at_the_first_wrong_answer(
    server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    # the context is 4,096 tokens: the first tool turn does not fit
    assert main(["soak", server.url, "--model", "scripted"]) == ExitCode.NOT_HELD
    said = capsys.readouterr().out
    assert "Request 2 (turn 1)" in said
    assert "400" in said


def test_soak_of_a_model_that_takes_no_tools_goes_on_without(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["scripted", "--context-length", "4096", "--tool-parser", "none"]
    with Server.start(arguments, env={"REFLOAT_HOME": str(tmp_path)}) as mute:
        asked = ["--model", "scripted", "--requests", "4", "--scale", "0.06", "--tools", "5"]
        assert main(["soak", mute.url, *asked, "--json"]) == ExitCode.OK
    said = capsys.readouterr()
    assert json.loads(said.out)["requests"] == 4
    assert "without tools" in said.err


def test_soak_of_nobody_is_a_wrong_answer(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["soak", "http://127.0.0.1:9", "--model", "m"]) == ExitCode.NOT_HELD
    assert "no answer" in capsys.readouterr().out
