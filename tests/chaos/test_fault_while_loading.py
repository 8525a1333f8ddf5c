"""A fault in the first load and in a rebuild, while requests wait for the model."""

import pytest

from refloat.testing.harness import Server
from refloat.testing.outcome import ask
from refloat.testing.patience import eventually
from tests.chaos.cells import (
    LOAD_CAUSES,
    QUICK,
    ROUNDS,
    Cell,
    bodies_of,
    body_of,
    cells,
    check_all,
    check_rest,
    send_all,
    text_of,
    watched,
)
from tests.chaos.conftest import StartServer

pytestmark = pytest.mark.process


def load_faults(kind: str, count: int) -> list[dict[str, object]]:
    """The first strikes the first load, each other one the first load after a loss: in between
    the worker comes up once more, which every later entry has to let pass."""
    return [{"at": "load", "kind": kind, "skip": number} for number in range(count)]


def run_loading(server: Server, cell: Cell, *, is_first: bool) -> None:
    """Requests come while the model loads; the load fails in the cell's way."""
    client = server.client()
    with watched(server, cell, "m", LOAD_CAUSES[cell.kind]):
        if not is_first:
            server.kill_worker("m")
            eventually(lambda: client.get("/v2/models/m/ready").status != 200, what="the loss")
        check_all(send_all(client, bodies_of(cell, "m")), cell)


@pytest.mark.parametrize("kind", LOAD_CAUSES)
def test_fault_while_loading_costs_nobody_an_answer(start_chaos: StartServer, kind: str) -> None:
    chosen = cells("loading", [kind])
    model = {"model": "scripted", "name": "m", "faults": load_faults(kind, len(chosen)), **QUICK}
    with start_chaos([model], ready=False) as server:
        for number, cell in enumerate(chosen):
            run_loading(server, cell, is_first=number == 0)


@pytest.mark.soak
@pytest.mark.parametrize("kind", LOAD_CAUSES)
def test_faults_while_loading_again_and_again_cost_nobody_an_answer(
    start_chaos: StartServer, kind: str
) -> None:
    chosen = cells("loading", [kind]) * ROUNDS
    model = {"model": "scripted", "name": "m", "faults": load_faults(kind, len(chosen)), **QUICK}
    with start_chaos([model], ready=False) as server:
        for number, cell in enumerate(chosen):
            run_loading(server, cell, is_first=number == 0)


@pytest.mark.parametrize("stream", [True, False])
def test_load_that_goes_on_failing_ends_what_runs_and_what_comes_with_a_typed_503(
    start_chaos: StartServer, stream: bool
) -> None:
    """The one cell in which nobody can be given an answer: the crash budget is used up."""
    faults = [
        {"at": "token", "token": 5, "kind": "kill", "match": "[fatal]"},
        {"at": "load", "kind": "exit", "skip": 1, "times": 1000},
    ]
    model = {"model": "scripted", "name": "m", "faults": faults, **QUICK}
    with start_chaos([model]) as server:
        client = server.client()
        cut = ask(client, body_of("m", 0, stream=stream, tag="[fatal]"))
        assert cut.is_whole
        assert cut.error is not None
        assert cut.error["type"] == "server_error"
        assert cut.error["code"] == "model_failed"
        if cut.status == 200:  # its first tokens had gone out
            assert text_of(0).startswith(cut.text)
        else:
            assert cut.status == 503
        refused = ask(client, body_of("m", 0, stream=stream))
        assert (refused.status, refused.is_whole) == (503, True)
        assert client.get("/v2/models/m/ready").status == 503


def test_load_longer_than_the_hold_time_is_a_503_that_says_when_to_come_back(
    start_chaos: StartServer,
) -> None:
    slow = {"at": "load", "kind": "slow", "seconds": 4.0, "skip": 1}
    model = {"model": "scripted", "name": "m", "faults": [slow], **QUICK, "load_timeout_s": 60.0}
    with start_chaos([model], hold_timeout_s=0.3) as server:
        client = server.client()
        server.kill_worker("m")
        eventually(lambda: client.get("/v2/models/m/ready").status != 200, what="the loss")
        for stream in (True, False):
            held = ask(client, body_of("m", 0, stream=stream))
            assert (held.status, held.is_whole) == (503, True)
            assert held.error is not None
            assert (held.error["type"], held.error["code"]) == ("server_error", "model_recovering")
            assert held.retry_after is not None
            assert 0 < int(held.retry_after) <= 60
        server.wait_ready()
        check_rest(server, "m")
