"""Jobs that a prep was at when it was lost: how often each is tried again, and who waits meanwhile."""

import asyncio
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from refloat.supervisor.child import Child
from refloat.supervisor.exits import Fault
from refloat.supervisor.knobs import Knobs
from refloat.supervisor.lifecycle import Effect
from refloat.supervisor.prep_jobs import Job
from refloat.supervisor.prep_program import PrepProgram
from refloat.wire.faults import FaultKind
from refloat.wire.guide import Guide, GuideKind, GuideRequest
from refloat.wire.messages import PROTOCOL_VERSION
from refloat.wire.prep_messages import Guided, MakeGuide, PrepConfigure, Tokenize, Tokens
from refloat.wire.problem import ProblemError, ProblemKind

CRASH = Fault(FaultKind.DEATH, "the prep process was killed by SIGSEGV")


class Preps:
    """One prep process after another, as its program sees them."""

    def __init__(self) -> None:
        configure = PrepConfigure(PROTOCOL_VERSION, "", "scripted")
        self.program = PrepProgram(configure, Knobs(), on_change=lambda: None)
        self.sent: list[int] = []
        """Numbers of the jobs that the present one was sent."""
        self._child = cast("Child", None)

    def start(self) -> None:
        self.sent = []

        def send(message: Any) -> None:
            self.sent.append(message.job)

        self._child = cast("Child", SimpleNamespace(send=send))
        self.program.perform(Effect.ANNOUNCE_READY, self._child, None)

    def lose(self, fault: Fault = CRASH) -> None:
        self.program.perform(Effect.ANNOUNCE_LOST, self._child, fault)
        self.program.lost(fault)
        self.start()

    def ask(self, number: int, *, guide: bool = False, tenant: str = "") -> Job:
        message: msgspec.Struct = Tokenize(number, ["x"])
        if guide:
            message = MakeGuide(number, GuideRequest(GuideKind.REGEX, "x", "p"))
        future = asyncio.get_running_loop().create_future()
        job = Job(number, message, "a job", future, tenant)
        self.program.submit(job)
        return job

    def answer(self, number: int) -> None:
        self.program.deliver(self._child, Tokens(number, ()))

    def make(self, number: int) -> None:
        self.program.deliver(self._child, Guided(number, Guide("x")))


def run(scene: Callable[[Preps], Awaitable[None]]) -> None:
    async def whole() -> None:
        preps = Preps()
        preps.start()
        await scene(preps)

    asyncio.run(whole())


def convicted(job: Job) -> bool:
    if not job.answer.done():
        return False
    error = job.answer.exception()
    assert isinstance(error, ProblemError)
    return error.problem.kind is ProblemKind.POISON_REQUEST


def test_job_that_nobody_waits_for_any_more_is_not_sent() -> None:
    async def scene(preps: Preps) -> None:
        *sent, waiting = (preps.ask(number) for number in range(9))
        preps.program.give_up(waiting)
        for job in sent:
            preps.answer(job.number)
        assert preps.sent == [job.number for job in sent]

    run(scene)


def test_grammar_that_ends_prep_alone_is_tried_twice() -> None:
    async def scene(preps: Preps) -> None:
        bomb, other = preps.ask(1, guide=True), preps.ask(2, guide=True)
        preps.lose()
        assert not convicted(bomb)
        preps.lose()
        assert convicted(bomb)
        assert preps.sent == [2]
        preps.make(2)
        assert other.answer.result() == Guided(2, Guide("x"))

    run(scene)


def test_grammar_beside_a_hostile_chat_waits_for_its_trial_and_is_made() -> None:
    async def scene(preps: Preps) -> None:
        hostile, innocent = preps.ask(1), preps.ask(2, guide=True)
        preps.lose()
        assert preps.sent == [1], "the suspect alone"
        preps.lose()
        assert convicted(hostile)
        assert preps.sent == [2]
        preps.make(2)
        assert innocent.answer.result() == Guided(2, Guide("x"))

    run(scene)


def test_chat_beside_a_hostile_grammar_is_answered() -> None:
    async def scene(preps: Preps) -> None:
        hostile, first = preps.ask(1, guide=True), preps.ask(2)
        preps.lose()
        preps.answer(2)
        assert first.answer.result() == Tokens(2, ())
        assert preps.sent == [2, 1]
        others = [preps.ask(3)]
        preps.lose()
        preps.answer(3)
        others.append(preps.ask(4))
        preps.lose()
        preps.answer(4)
        assert [job.answer.result() for job in others] == [Tokens(3, ()), Tokens(4, ())]
        assert convicted(hostile)

    run(scene)


@pytest.mark.parametrize("external", [True, False])
def test_loss_that_nobody_is_to_blame_for_is_charged_to_no_grammar(external: bool) -> None:
    kind = FaultKind.DEATH if external else FaultKind.OPERATOR
    fault = Fault(kind, "somebody ended it", is_external=external)

    async def scene(preps: Preps) -> None:
        job = preps.ask(1, guide=True)
        for _ in range(4):
            preps.lose(fault)
        assert not convicted(job)
        assert preps.sent == [1]

    run(scene)
