"""`refloat incidents`, from the folder alone."""

import json
from pathlib import Path

import pytest

from refloat.cli import application
from refloat.cli.exit_codes import ExitCode
from refloat.config.home import incidents_dir
from refloat.observe.device import DeviceFacts
from refloat.observe.incident_record import (
    Action,
    BatchEntry,
    Incident,
    KernelNote,
    Loss,
    Missing,
    encode_incident,
)
from refloat.observe.incidents import IncidentStore, new_incident_id
from refloat.wire.faults import FaultKind


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty `$REFLOAT_HOME`."""
    monkeypatch.setenv("REFLOAT_HOME", str(tmp_path / "home"))


def put() -> Incident:
    """A rich one on record."""
    incident = Incident(
        id=new_incident_id("smol"),
        model="smol",
        opened="2026-01-02T03:04:05.678+00:00",
        closed="2026-01-02T03:04:07.678+00:00",
        outcome="ready",
        duration_s=2.0,
        worker_id=3,
        pid=4242,
        cause=FaultKind.CONTEXT_FATAL,
        reason="the engine failed while stepping: [GPU] clFinish",
        state="ready",
        phase="stepping",
        step=7,
        step_tokens=512,
        batch=(BatchEntry(11, 1200, 7, in_step=True),),
        losses=[
            Loss(3, 4242, FaultKind.CONTEXT_FATAL, "first", "ready", 0.0, -9),
            Loss(4, 4250, FaultKind.LOAD_FAILED, "the second load [failed]", "loading", 0.9, 71),
        ],
        losses_total=2,
        actions=[Action("kill", 3, 0.0, 0.001), Action("load", 5, 1.0, 0.5)],
        generations={"11": "finished", "12": "finished", "13": "failed: poison_request"},
        kernel=[KernelNote("gpu_reset", "xe 0000:03:00.0: [drm] GT0: Engine reset", True)],
        device=DeviceFacts("GPU", "0000:03:00.0", "xe"),
        engine="openvino_cb",
        versions={"openvino": "2026.4"},
        files=["stderr.txt"],
        missing=[Missing("/proc stack", "Permission denied")],
        hints=["the GPU hung"],
    )
    IncidentStore(incidents_dir()).write(incident.id, encode_incident(incident))
    return incident


def test_incidents_list_is_one_line_each(capsys: pytest.CaptureFixture[str]) -> None:
    assert application.run(["incidents", "list"]) == ExitCode.OK
    assert capsys.readouterr().out == ""
    first, second = put(), put()
    assert application.run(["incidents", "list"]) == ExitCode.OK
    rows = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    assert {row[0] for row in rows} == {first.id, second.id}
    fates = "2 finished, 1 failed: poison_request"
    assert rows[0][1:] == ["smol", "context_fatal", "ready", "2.0 s", fates]
    assert application.run(["incidents", "list", "--most", "1"]) == ExitCode.OK
    assert len(capsys.readouterr().out.splitlines()) == 1


def test_incidents_show_tells_everything_by_the_end_of_the_id(
    capsys: pytest.CaptureFixture[str],
) -> None:
    incident = put()
    assert application.run(["incidents", "show", incident.id[-6:]]) == ExitCode.OK
    out = capsys.readouterr().out
    for words in (
        incident.id,
        "context_fatal: the engine failed while stepping: [GPU] clFinish",
        "stepping, step 7 (512 tokens)",
        "GPU 0000:03:00.0 xe",
        "11: 1200 prompt + 7 emitted tokens, in the step: finished",
        "the second load [failed]",
        "* xe 0000:03:00.0: [drm] GT0: Engine reset",
        "kill (worker 3)",
        "/proc stack: Permission denied",
        "the GPU hung",
        str(incidents_dir() / incident.id),
    ):
        assert words in out


def test_incidents_show_as_json_is_the_record(capsys: pytest.CaptureFixture[str]) -> None:
    incident = put()
    assert application.run(["incidents", "show", "--json", incident.id]) == ExitCode.OK
    record = json.loads(capsys.readouterr().out)
    assert (record["id"], record["schema"], record["cause"]) == (incident.id, 1, "context_fatal")


def test_incidents_show_of_what_is_not_there_is_one_line(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert application.run(["incidents", "show", "nope"]) == ExitCode.USAGE
    err = capsys.readouterr().err
    assert err == "refloat: no incident is named 'nope'; see `refloat incidents list`\n"


@pytest.mark.parametrize("command", [["list"], ["show", "abc123"]])
def test_incidents_folder_that_cannot_be_read_is_named(
    command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    incidents_dir().parent.mkdir(parents=True)
    incidents_dir().write_text("not a folder")
    assert application.run(["incidents", *command]) == ExitCode.USAGE
    said = capsys.readouterr()
    assert (said.out, said.err) == (
        "",
        f"refloat: {incidents_dir()} cannot be read: Not a directory\n",
    )
