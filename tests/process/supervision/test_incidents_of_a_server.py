"""A whole server's incidents: outcomes of streams, errors that name them, nothing of what was said."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from refloat.observe.incidents import IncidentStore, UnknownIncidentError
from refloat.testing.harness import Server
from refloat.testing.patience import eventually

pytestmark = pytest.mark.process

SECRET = "swordfish-7316"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A `$REFLOAT_HOME` of its own."""
    return tmp_path / "home"


@pytest.fixture
def kernel_log(tmp_path: Path) -> Path:
    path = tmp_path / "kern.log"
    path.touch()
    return path


@pytest.fixture
def server(home: Path, kernel_log: Path) -> Iterator[Server]:
    """Loses its worker at the fourth token of every prompt that says so."""
    model: dict[str, Any] = {
        "model": "scripted",
        "name": "frail",
        "engine_options": {
            "rules": [{"match": "once|always|hang", "text": f"The answer is {SECRET} " * 4}]
        },
        "faults": [
            {"at": "token", "token": 4, "kind": "segv", "match": "[once]"},
            {"at": "token", "token": 4, "kind": "raise", "match": "[always]", "times": 1000},
            {"at": "token", "token": 4, "kind": "hang", "match": "[hang]"},
        ],
    }
    config = {"models": [model], "server": {"kernel_log": str(kernel_log)}}
    with Server.start(config=config, env={"REFLOAT_HOME": str(home)}) as started:
        yield started


def store(home: Path) -> IncidentStore:
    return IncidentStore(home / "v1" / "incidents")


def chat(server: Server, text: str, **more: Any) -> Any:
    body = {"model": "frail", "messages": [{"role": "user", "content": text}], **more}
    return server.client().post("/v1/chat/completions", body)


def everything(home: Path) -> bytes:
    files = [path for path in (home / "v1" / "incidents").rglob("*") if path.is_file()]
    assert files
    return b"\n".join(path.read_bytes() for path in files)


def test_stream_that_survives_is_told_in_the_incident_and_its_words_are_not(
    server: Server, home: Path
) -> None:
    answer = chat(server, f"[once] {SECRET}", max_tokens=40)
    assert answer.status == 200
    kept = store(home)
    [incident_id] = kept.ids()
    incident = eventually(
        lambda: kept.read(incident_id) if _fates(kept, incident_id) == ["finished"] else None,
        what="the outcome to be on record",
    )
    assert incident.outcome == "ready"
    assert incident.exit_status == -11
    [entry] = incident.batch
    assert entry.emitted_tokens == 4
    assert entry.prompt_tokens > len(SECRET)
    listed = server.client().get("/admin/incidents").json()["data"]
    assert [row["id"] for row in listed] == [incident_id]
    shown = server.client().get(f"/admin/incidents/{incident_id}").json()
    assert shown["cause"] == "death"
    assert SECRET.encode() not in everything(home)
    metrics = server.client().get("/metrics").body.decode()
    assert 'refloat_incidents_total{cause="death",model="frail"} 1.0' in metrics


def test_error_of_a_request_that_costs_workers_names_its_incident(
    server: Server, home: Path
) -> None:
    answer = chat(server, f"[always] {SECRET}", max_tokens=40)
    assert answer.status >= 500
    error = answer.json()["error"]
    kept = store(home)
    eventually(
        lambda: _fates(kept, error["incident_id"]) == [f"failed: {error['code']}"],
        what="the failure to be on record",
    )
    assert SECRET.encode() not in everything(home)


def test_kernel_line_ends_a_hang_long_before_its_budget(
    server: Server, home: Path, kernel_log: Path
) -> None:
    client = server.client()
    body = {"model": "frail", "messages": [{"role": "user", "content": "[hang]"}], "stream": True}
    with client.stream("/v1/chat/completions", body) as stream:
        chunks = stream.data()
        next(chunks)
        pid = server.worker_pid()
        with kernel_log.open("a") as file:
            line = f"xe 0000:03:00.0: [drm] GT0: Timedout job: in refloat-worker [{pid}]\n"
            file.write(f"Nov 29 16:21:01 host kernel: [  262.000268] {line}")
        transcript = stream.transcript()
    assert transcript.done
    assert transcript.error is None
    [incident_id] = store(home).ids()
    incident = store(home).read(incident_id)
    assert incident.cause == "context_fatal"
    assert [note.names_worker for note in incident.kernel] == [True]


def _fates(kept: IncidentStore, incident_id: str) -> list[str]:
    """Answers do not wait for the record, so it may not be there yet."""
    try:
        return list(kept.read(incident_id).generations.values())
    except UnknownIncidentError:
        return []
