"""A fault while a request is queued, in prefill, in decode, at its last token, or none runs."""

import random
from dataclasses import replace

import pytest

from refloat.testing.harness import Server
from tests.chaos.cells import (
    IDLE,
    IN_SERVICE,
    QUICK,
    ROUNDS,
    Cell,
    model_of,
    run_idle,
    run_in_service,
)
from tests.chaos.conftest import StartServer

pytestmark = pytest.mark.process


@pytest.mark.parametrize("cell", IN_SERVICE, ids=str)
def test_fault_in_service_costs_nobody_an_answer(chaos_server: Server, cell: Cell) -> None:
    run_in_service(chaos_server, cell)


@pytest.mark.parametrize("cell", IDLE, ids=str)
def test_fault_of_an_idle_worker_costs_nobody_an_answer(chaos_server: Server, cell: Cell) -> None:
    run_idle(chaos_server, cell, "idle")


@pytest.mark.soak
@pytest.mark.parametrize("phase", ["queued", "prefill", "decode", "last", "idle"])
def test_faults_of_a_phase_in_any_order_cost_nobody_an_answer(
    start_chaos: StartServer, phase: str
) -> None:
    chance = random.Random(phase)
    if phase == "idle":
        model, chosen = {"model": "scripted", "name": "idle", **QUICK}, IDLE
    else:
        model = model_of(phase, turns=ROUNDS)
        chosen = [cell for cell in IN_SERVICE if cell.phase == phase]
    with start_chaos([model]) as server:
        for turn in range(ROUNDS):
            for cell in chance.sample(chosen, len(chosen)):
                if phase == "idle":
                    run_idle(server, cell, "idle")
                else:
                    run_in_service(server, replace(cell, turn=turn))
