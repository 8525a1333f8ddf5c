"""A worker lost after SIGTERM: what was running still gets its whole answer, and the server exits 0."""

import os
import signal
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from refloat.testing.harness import Server
from refloat.testing.outcome import Outcome, ask
from refloat.testing.patience import DEFAULT_DEADLINE_S, eventually
from tests.chaos.cells import CAUSES, QUICK, ROUNDS, Cell, bodies_of, cells, check_all
from tests.chaos.conftest import StartServer

pytestmark = pytest.mark.process
#: The workers are held by SIGSTOP until the drain has begun, which is no stall yet.
FLOOR_S = 4.0


def run_draining(start_chaos: StartServer, kind: str) -> None:
    """All cells of a kind at once, each on a model of its own, in one drain."""
    chosen = cells("draining", [kind])
    models = [
        {
            "model": "scripted",
            "name": str(cell),
            "faults": [{"at": "token", "token": 5, "kind": kind, "match": cell.tag}],
            **QUICK,
            "stall_floor_s": FLOOR_S,
        }
        for cell in chosen
    ]
    with start_chaos(models) as server, ThreadPoolExecutor(64) as pool:
        pids = [eventually(lambda cell=cell: server.worker_pid(str(cell))) for cell in chosen]
        signal_all(pids, signal.SIGSTOP)
        sent: dict[Cell, list[Future[Outcome]]] = {
            cell: [pool.submit(ask, server.client(), body) for body in bodies_of(cell, str(cell))]
            for cell in chosen
        }
        wait_admitted(server, chosen)
        server.process.send_signal(signal.SIGTERM)
        eventually(lambda: server.events("draining"), every_s=0.005, what="the drain")
        signal_all(pids, signal.SIGCONT)
        for cell, futures in sent.items():
            check_all([future.result() for future in futures], cell)
        assert server.process.wait(timeout=DEFAULT_DEADLINE_S) == 0
        check_order(server, chosen, CAUSES[kind])


def signal_all(pids: Sequence[int], number: signal.Signals) -> None:
    """The same to every worker."""
    for pid in pids:
        os.kill(pid, number)


def wait_admitted(server: Server, chosen: Sequence[Cell]) -> None:
    """Until every request is with its model: a later one would rightly be turned away."""
    client = server.client()
    wanted = {str(cell): cell.clients for cell in chosen}

    def are_all_there() -> bool:
        models = client.get("/health").json()["models"]
        counts = {model["name"]: model["counts"] for model in models}
        return wanted == {n: c.get("running", 0) + c.get("waiting", 0) for n, c in counts.items()}

    eventually(are_all_there, every_s=0.005, what="all requests to be taken")


def check_order(server: Server, chosen: Sequence[Cell], cause: str) -> None:
    """Each worker was lost to its fault, and after the drain had begun; nobody ended twice."""
    names = [entry["event"] for entry in server.log if entry["event"] in ("draining", "child_lost")]
    faults = [e for e in server.events("child_lost") if e["cause"] != "operator"]
    lost = {entry["model"]: entry["cause"] for entry in faults}
    assert names[0] == "draining"
    assert lost == {str(cell): cause for cell in chosen}
    assert len(faults) == len(chosen)
    ended = [entry["request_id"] for entry in server.events("request_ended")]
    assert len(ended) == len(set(ended))


@pytest.mark.parametrize("kind", CAUSES)
def test_fault_while_draining_costs_nobody_an_answer(start_chaos: StartServer, kind: str) -> None:
    run_draining(start_chaos, kind)


@pytest.mark.soak
@pytest.mark.parametrize("kind", CAUSES)
def test_faults_while_draining_again_and_again_cost_nobody_an_answer(
    start_chaos: StartServer, kind: str
) -> None:
    for _ in range(ROUNDS):
        run_draining(start_chaos, kind)
