"""Incidents over HTTP: what the folder holds, to operators only."""

from pathlib import Path
from typing import Any

import pytest

from refloat.observe.device import DeviceFacts
from refloat.observe.incident_record import Incident, encode_incident
from refloat.observe.incidents import IncidentStore, new_incident_id
from refloat.testing.client import Client
from refloat.wire.faults import FaultKind

LIST = "/admin/incidents"


@pytest.fixture
def store(tmp_path: Path) -> IncidentStore:
    """Two incidents on record."""
    store = IncidentStore(tmp_path / "incidents")
    for _ in range(2):
        incident = Incident(
            id=new_incident_id("m"),
            model="m",
            opened="2026-01-02T03:04:05.678+00:00",
            worker_id=3,
            pid=1,
            cause=FaultKind.STALL,
            reason="no progress",
            state="ready",
            device=DeviceFacts("CPU"),
            engine="scripted",
        )
        store.write(incident.id, encode_incident(incident))
    return store


def test_incidents_are_listed_and_shown(gateway_with: Any, store: IncidentStore) -> None:
    client = Client(gateway_with(incidents=store).url)
    listed = client.get(LIST).json()
    assert listed["object"] == "list"
    assert {row["id"] for row in listed["data"]} == set(store.ids())
    assert {row["cause"] for row in listed["data"]} == {"stall"}
    one = store.ids()[0]
    for name in (one, one[-6:]):
        shown = client.get(f"{LIST}/{name}").json()
        assert (shown["id"], shown["schema"], shown["reason"]) == (one, 1, "no progress")


@pytest.mark.parametrize("name", ["nope", "..%2F..%2Fetc%2Fpasswd", "..", "2026"])
def test_incident_that_is_not_there_is_not_found(
    gateway_with: Any, store: IncidentStore, name: str
) -> None:
    answer = Client(gateway_with(incidents=store).url).get(f"{LIST}/{name}")
    assert (answer.status, answer.json()["error"]["code"]) == (404, "not_found")


def test_incident_whose_record_is_broken_says_so(gateway_with: Any, store: IncidentStore) -> None:
    broken = store.ids()[0]
    store.write(broken, b"{")
    client = Client(gateway_with(incidents=store).url)
    answer = client.get(f"{LIST}/{broken}")
    assert answer.status == 404
    assert "cannot be read" in answer.json()["error"]["message"]
    assert len(client.get(LIST).json()["data"]) == 1


def test_incidents_in_a_folder_that_cannot_be_read_say_so(
    gateway_with: Any, tmp_path: Path
) -> None:
    blocked = tmp_path / "incidents"
    blocked.write_text("not a folder")
    client = Client(gateway_with(incidents=IncidentStore(blocked)).url)
    for route in (LIST, f"{LIST}/abc123"):
        answer = client.get(route)
        assert answer.status == 500
        message = "The folder of incidents cannot be read: Not a directory."
        assert answer.json()["error"]["message"] == message


def test_incidents_without_a_folder_are_none(gateway: Any) -> None:
    assert Client(gateway.url).get(LIST).json() == {"data": [], "object": "list"}
    assert Client(gateway.url).get(f"{LIST}/x").status == 404


def test_incidents_are_for_operators_only(gateway_with: Any, store: IncidentStore) -> None:
    gateway = gateway_with(incidents=store, keys=["k"])
    assert Client(gateway.url).get(LIST).status == 401
    assert Client(gateway.url, api_key="k").get(LIST).status == 200


def test_incidents_without_keys_are_for_this_machine_only(gateway: Any) -> None:
    answer = Client(gateway.url).request("GET", LIST, None, {"Origin": "https://evil.example"})
    assert (answer.status, answer.json()["error"]["code"]) == (403, "forbidden")


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("evil.example", 403),  # a page's own name, which it made a browser resolve to 127.0.0.1
        ("evil.example:8000", 403),
        ("127.0.0.1.evil.example", 403),
        ("localhost:8000", 200),
        ("127.0.0.1", 200),
        ("[::1]:8000", 200),
        ("[::1]", 200),
    ],
)
def test_incidents_without_keys_are_not_for_pages_that_rename_this_machine(
    gateway: Any, host: str, status: int
) -> None:
    assert Client(gateway.url).request("GET", LIST, None, {"Host": host}).status == status
