"""An agent's turns (a tiny request, then three that grow, with tools) while the worker is lost every
twenty requests on average: every answer is complete and right."""

import random

import pytest

from refloat.drill.workload import Shape, turns
from refloat.testing.outcome import ask
from tests.chaos.cells import CAUSES, GAUGES, QUICK
from tests.chaos.conftest import StartServer

pytestmark = [pytest.mark.process, pytest.mark.timeout(120)]

#: What the model says to every turn. A token a byte: not what a rule's piece would be.
ANSWER = "Entry no. 7 ≈ the last one: ‹task-00f3a9›, 2026-08-17T09:41Z, 日本 🚢. " * 3
FAULT_EVERY = 20


def run_workload(start_chaos: StartServer, requests: int) -> None:
    chance = random.Random(requests)
    struck = [number for number in range(requests) if chance.randrange(FAULT_EVERY) == 0]
    model = {
        "model": "scripted",
        "name": "m",
        "context_length": 65_536,
        "engine_options": {"rules": [{"match": ".", "text": ANSWER, "chunk": "bytes"}]},
        "faults": [
            {"at": "token", "token": 40, "kind": chance.choice([*CAUSES]), "match": mark(number)}
            for number in struck
        ],
        **QUICK,
    }
    bodies = [turn.body for turn in turns(Shape(scale=0.3, max_tokens=1_000))]
    with start_chaos([model]) as server:
        client = server.client()
        for number in range(requests):
            body = {**bodies[number % len(bodies)], "model": "m"}
            if number in struck:
                marked = {"role": "system", "content": mark(number)}
                body = {**body, "messages": [marked, *body["messages"]]}
            outcome = ask(client, body)
            assert outcome.is_right, (number, outcome.describe(), server.log_text())
            assert outcome.text == ANSWER, (number, outcome.text)
            assert outcome.usage is not None
            assert outcome.usage["completion_tokens"] == len(ANSWER.encode()) + 1
        assert client.metric("refloat_worker_restarts_total", model="m") == len(struck)
        assert struck
        assert client.get("/v2/health/ready").status == 200
        for gauge in GAUGES:
            assert client.metric(gauge, model="m") == 0, gauge


def mark(number: int) -> str:
    """Stands in the request that meets a fault, and in no other."""
    return f"[strike {number}]"


def test_agent_gets_every_answer_in_spite_of_faults(start_chaos: StartServer) -> None:
    run_workload(start_chaos, 60)


@pytest.mark.soak
def test_agent_gets_two_thousand_answers_in_spite_of_faults(start_chaos: StartServer) -> None:
    run_workload(start_chaos, 2_000)
