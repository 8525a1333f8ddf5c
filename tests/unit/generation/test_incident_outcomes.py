"""Generations that lose their worker: their incident is told how they end, failures name it."""

import asyncio
from dataclasses import dataclass, field

from refloat.generation.limits import Limits
from refloat.supervisor.fleet import Availability, ReplicaLoss
from refloat.wire.faults import FaultKind
from refloat.wire.problem import ProblemKind
from tests.unit.generation.conftest import Stage

PROMPT = (1, 2, 3)


@dataclass
class Book:
    told: dict[str, list[str]] = field(default_factory=dict[str, list[str]])

    def outcome(self, incident_id: str, generation: int, text: str) -> None:
        self.told.setdefault(f"{incident_id}/{generation}", []).append(text)


def lose(stage: Stage, incident_id: str | None) -> None:
    loss = ReplicaLoss(FaultKind.DEATH, "killed", is_external=True, incident_id=incident_id)
    stage.lose_by(loss)


def test_generation_that_goes_on_is_resumed_then_finished(stage: Stage) -> None:
    book = Book()
    stage.dispatch.tell_incidents(book)

    async def scene() -> None:
        session = await stage.submit(PROMPT, max_tokens=6)
        untouched = await stage.submit((4, 5), max_tokens=1)
        stage.step(1)
        lose(stage, "a")
        stage.ready()
        stage.step(2)
        number = session.choices[0].journal.generation
        assert book.told == {f"a/{number}": ["waiting", "resumed"]}
        await stage.finish(session)
        await stage.finish(untouched)
        assert book.told == {f"a/{number}": ["waiting", "resumed", "finished"]}

    asyncio.run(scene())


def test_generation_that_fails_names_its_incident(stage_of: type[Stage]) -> None:
    book = Book()
    stage = stage_of(limits=Limits(max_resumes=1))
    stage.ready()
    stage.dispatch.tell_incidents(book)

    async def scene() -> None:
        session = await stage.submit(PROMPT, max_tokens=6)
        lose(stage, "a")
        stage.ready()
        lose(stage, "b")
        problem = (await stage.read(session)).problem
        assert problem.kind is ProblemKind.ENGINE_ERROR
        assert problem.incident_id == "b"
        number = session.choices[0].journal.generation
        assert book.told[f"a/{number}"][-1] == "failed: engine_error"
        assert book.told[f"b/{number}"][-1] == "failed: engine_error"

    asyncio.run(scene())


def test_generation_whose_client_leaves_meanwhile_is_cancelled(stage: Stage) -> None:
    book = Book()
    stage.dispatch.tell_incidents(book)

    async def scene() -> None:
        session = await stage.submit(PROMPT)
        stage.step()
        lose(stage, "a")
        session.cancel()
        number = session.choices[0].journal.generation
        assert book.told == {f"a/{number}": ["waiting", "cancelled"]}

    asyncio.run(scene())


def test_loss_without_an_incident_tells_nobody_and_is_named_by_nobody(
    stage_of: type[Stage],
) -> None:
    book = Book()
    stage = stage_of(limits=Limits(max_resumes=0))
    stage.ready()
    stage.dispatch.tell_incidents(book)

    async def scene() -> None:
        session = await stage.submit(PROMPT)
        lose(stage, None)
        assert (await stage.read(session)).problem.incident_id is None
        assert book.told == {}

    asyncio.run(scene())


def test_request_that_finds_the_model_failed_names_the_outage(stage: Stage) -> None:
    async def scene() -> None:
        stage.lose(Availability.FAILED, reason="it fell", incident_id="a")
        problem = await stage.refusal(PROMPT)
        assert (problem.kind, problem.incident_id) == (ProblemKind.MODEL_FAILED, "a")

    asyncio.run(scene())
