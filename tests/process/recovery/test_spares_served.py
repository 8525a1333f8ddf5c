"""Spares and memory through the whole server, on the scripted engine: what clients see of them."""

import os
import signal
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from refloat.testing.client import Answer, Transcript
from refloat.testing.harness import Server
from refloat.testing.patience import eventually
from refloat.testing.witness import ReadinessWitness

pytestmark = [pytest.mark.process, pytest.mark.timeout(180)]

COUNTED = " ".join(str(number) for number in range(1, 41))
ASK = "Count from 1 to 40"
StartServer = Callable[..., Server]


@pytest.fixture
def start(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StartServer]:
    """Starts servers from models' settings, and leaves none behind."""
    home = tmp_path_factory.mktemp("home")
    started: list[Server] = []

    def start_one(*models: dict[str, Any]) -> Server:
        config = {"models": [{"model": "scripted", **model} for model in models]}
        server = Server.start(config=config, env={"REFLOAT_HOME": str(home)})
        started.append(server)
        return server

    yield start_one
    for server in started:
        server.close()


def workers(server: Server) -> dict[str, dict[str, Any]]:
    """The first model's workers, by role."""
    model = server.client().get("/health").json()["models"][0]
    return {worker["role"]: worker for worker in model["workers"]}


def until_spare(server: Server, state: str) -> dict[str, Any]:
    """The spare, once it has reached a state."""

    def spare() -> dict[str, Any] | None:
        found = workers(server).get("spare")
        return found if found and found["state"] == state and found["pid"] else None

    return eventually(spare, what=f"a spare that is {state}")


def stream_together(server: Server, count: int, midway: Callable[[], object]) -> list[Transcript]:
    """This many streams at once; `midway` happens when all of them have begun to speak."""
    begun = threading.Barrier(count + 1, timeout=60)
    transcripts: dict[int, Transcript] = {}

    def read(index: int) -> None:
        with server.client(timeout_s=90).chat_stream(ASK) as stream:
            transcript = Transcript()
            for number, payload in enumerate(stream.data()):
                transcript.add(payload)
                if number == 3:
                    begun.wait()
            transcripts[index] = transcript

    threads = [threading.Thread(target=read, args=(index,)) for index in range(count)]
    for thread in threads:
        thread.start()
    begun.wait()
    midway()
    for thread in threads:
        thread.join(timeout=120)
    assert len(transcripts) == count, server.log_text()
    return list(transcripts.values())


@pytest.mark.parametrize("spares", [1, "primed"])
def test_sixteen_streams_go_on_in_the_spare(start: StartServer, spares: Any) -> None:
    server = start({"name": "m", "spares": spares, "engine_options": {"step_s": 0.03}})
    spare = until_spare(server, "ready" if spares == 1 else "loading")
    serving = workers(server)["serving"]
    body = server.client().chat_body("Hi")
    with ReadinessWitness(server.client(), body) as witness:
        transcripts = stream_together(server, 16, lambda: os.kill(serving["pid"], signal.SIGKILL))
    assert [transcript.text() for transcript in transcripts] == [COUNTED] * 16
    assert all(transcript.done for transcript in transcripts)
    assert witness.lies == []
    assert workers(server)["serving"]["id"] == spare["id"]
    assert len(server.events("generation_resumed")) >= 16


def test_spare_takes_over_although_the_next_one_never_loads(start: StartServer) -> None:
    """A cold start would hang: whoever goes on does so in the spare."""
    hang = {"at": "load", "kind": "hang", "skip": 2}
    server = start({"name": "m", "spares": 1, "faults": [hang], "engine_options": {"step_s": 0.03}})
    until_spare(server, "ready")
    (transcript,) = stream_together(server, 1, server.kill_worker)
    assert transcript.text() == COUNTED
    assert server.client().get("/v2/health/ready").status == 200


def test_killed_spare_is_noticed_by_nobody(start: StartServer) -> None:
    server = start({"name": "m", "spares": 1, "engine_options": {"step_s": 0.03}})
    spare = until_spare(server, "ready")
    body = server.client().chat_body("Hi")
    with ReadinessWitness(server.client(), body) as witness:
        transcripts = stream_together(server, 4, lambda: os.kill(spare["pid"], signal.SIGKILL))
        again = eventually(
            lambda: (found := until_spare(server, "ready"))["id"] != spare["id"] and found,
            what="another spare",
        )
    assert again
    assert [transcript.text() for transcript in transcripts] == [COUNTED] * 4
    assert witness.not_ready == 0
    assert witness.lies == []
    assert server.events("generation_resumed") == []


def test_both_workers_killed_at_once_cost_no_answer(start: StartServer) -> None:
    server = start({"name": "m", "spares": 1, "engine_options": {"step_s": 0.03}})
    until_spare(server, "ready")

    def kill_both() -> None:
        for worker in workers(server).values():
            os.kill(worker["pid"], signal.SIGKILL)

    transcripts = stream_together(server, 8, kill_both)
    assert [transcript.text() for transcript in transcripts] == [COUNTED] * 8


def test_request_that_kills_only_at_full_speed_is_not_tried_on_a_spare_that_is_no_safer(
    start: StartServer,
) -> None:
    poison = {
        "at": "step",
        "kind": "context_fatal",
        "match": "[poison]",
        "times": 1000,
        "max_rung": 0,
    }
    server = start({"name": "m", "spares": 1, "faults": [poison]})
    until_spare(server, "ready")
    answer = server.client().chat(f"{ASK} [poison]")
    assert answer.status == 200, server.log_text()
    assert answer.json()["choices"][0]["message"]["content"] == COUNTED
    model = server.client().get("/health").json()["models"][0]
    assert model["rung"] == 1
    assert model["restarts"]["context_fatal"] <= 3


def error_of(answer: Answer) -> dict[str, Any]:
    error: dict[str, Any] = answer.json()["error"]
    return error


def test_model_that_memory_does_not_suffice_for_is_a_503_with_figures_and_others_serve(
    start: StartServer,
) -> None:
    server = start(
        {"name": "m"},
        {"name": "huge", "engine_options": {"weights_bytes": 1 << 50}},
    )
    client = server.client()
    eventually(
        lambda: client.get("/v2/models/huge/ready").json().get("state") == "failed",
        what="the refusal",
    )
    answer = client.chat("Hi", model="huge")
    assert answer.status == 503
    error = error_of(answer)
    assert error["code"] == "insufficient_memory"
    assert "needs 1048576.0 GB of host memory" in error["message"]
    assert client.chat("Hi", model="m").status == 200
    shown = next(m for m in client.get("/health").json()["models"] if m["name"] == "huge")
    assert (shown["state"], shown["cause"]) == ("failed", "out_of_memory")
    status = client.get("/v1/config").json()["huge"]["model_version_status"][0]["status"]
    assert status["error_code"] == "FAILED_PRECONDITION"
    assert "1048576.0 GB" in status["error_message"]
