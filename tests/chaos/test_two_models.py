"""Two models on one server: one loses its worker again and again, the other's callers never notice."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from refloat.testing.client import Client
from refloat.testing.harness import Server
from refloat.testing.outcome import Outcome, ask
from refloat.testing.patience import eventually
from tests.chaos.cells import QUICK, body_of, check_rest, text_of
from tests.chaos.conftest import StartServer

pytestmark = pytest.mark.process


def bother(client: Client, stop: threading.Event, outcomes: list[Outcome]) -> None:
    """Ask the calm model without a pause."""
    while not stop.is_set():
        number = len(outcomes) % 20
        outcomes.append(ask(client, body_of("calm", number, stream=number % 2 == 0)))
        right = outcomes[-1].is_right and outcomes[-1].text == text_of(number)
        assert right, outcomes[-1].describe()


def kill_again_and_again(server: Server, times: int) -> None:
    """A stream of the frail model loses its worker once for each time, and ends all the same."""
    client = server.client()
    for number in range(times):
        stream = ask(client, body_of("frail", number, stream=True, tag="[kill]"))
        assert stream.is_right, stream.describe()
        assert stream.text == text_of(number)
    restarts = client.metric("refloat_worker_restarts_total", model="frail")
    assert restarts == times


def run_beside(start_chaos: StartServer, times: int) -> None:
    kill = {"at": "token", "token": 7, "kind": "kill", "match": "[kill]"}
    # A resumption comes by the same token once more, and is let pass.
    faults = [{**kill, "skip": number} for number in range(times)]
    models = [
        {"model": "scripted", "name": "frail", "faults": faults, **QUICK},
        {"model": "scripted", "name": "calm"},
    ]
    with start_chaos(models) as server, ThreadPoolExecutor(2) as pool:
        stop = threading.Event()
        outcomes: list[list[Outcome]] = [[], []]
        others = [pool.submit(bother, server.client(), stop, into) for into in outcomes]
        try:
            kill_again_and_again(server, times)
        finally:
            stop.set()
        for other in others:
            other.result()
        assert all(outcomes)
        assert server.client().metric("refloat_worker_restarts_total", model="calm") == 0
        for model in ("frail", "calm"):
            check_rest(server, model)
        eventually(lambda: not server.events("essential_task_ended"), what="no broken task")


def test_losses_of_one_model_are_nothing_to_the_other(start_chaos: StartServer) -> None:
    run_beside(start_chaos, 3)


@pytest.mark.soak
def test_fifty_losses_of_one_model_are_nothing_to_the_other(start_chaos: StartServer) -> None:
    run_beside(start_chaos, 50)
