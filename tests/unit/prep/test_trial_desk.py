"""The desk: what becomes of a wish whose child dies, hangs or does not start."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from refloat.prep.trial.desk import TrialDesk
from refloat.prep.trial.process import ChildGoneError, TooExpensiveError, TrialProcess
from refloat.prep.trial.program import Trial
from refloat.testing.patience import eventually
from refloat.wire.guide import Guide, GuideKind, GuideRequest
from refloat.wire.prep_messages import Guided, MakeGuide, PrepRefused
from refloat.wire.problem import ProblemKind

JOB = MakeGuide(1, GuideRequest(GuideKind.JSON, param="field"))
MADE = Guided(1, Guide("root ::= x"))
GONE = ChildGoneError()
DEAR = TooExpensiveError(by_clock=False)
LATE = TooExpensiveError(by_clock=True)
_MIB = 1 << 20


@dataclass
class Child:
    """A child that does what it is told beforehand."""

    does: Any = MADE
    starts: Exception | None = None
    sizes: Iterator[int] = field(default_factory=lambda: iter(()))
    is_ready = True
    is_killed = False

    def wait_ready(self, limit_s: float) -> None:
        if self.starts is not None:
            raise self.starts

    def ask(self, job: Trial, *, cpu_s: float, wall_s: float) -> Guided | PrepRefused:
        if isinstance(self.does, Exception):
            raise self.does
        return self.does

    def resident_bytes(self) -> int:
        return next(self.sizes, 10 * _MIB)

    def kill(self) -> None:
        self.is_killed = True


class Nursery:
    """Spawns these, in order; more than these is a defect."""

    def __init__(self, *children: Child) -> None:
        self._waiting = list(children)
        self.spawned: list[Child] = []
        self.answers: list[Guided | PrepRefused] = []
        self.desk = TrialDesk(["--x"], self.answers.append, spawn=self._spawn)

    def _spawn(self, arguments: Sequence[str]) -> TrialProcess:
        assert arguments == ["--x"]
        self.spawned.append(self._waiting.pop(0))
        return cast("TrialProcess", self.spawned[-1])

    def refusal(self) -> ProblemKind:
        told = self.desk.verdict(JOB)
        assert isinstance(told, PrepRefused)
        return told.problem.kind


def test_child_is_kept_as_long_as_it_is_well() -> None:
    nursery = Nursery(Child())
    assert [nursery.desk.verdict(JOB) for _ in range(3)] == [MADE] * 3
    assert len(nursery.spawned) == 1


def test_grammar_that_takes_too_long_costs_its_child_and_is_refused() -> None:
    nursery = Nursery(Child(DEAR), Child())
    assert nursery.refusal() is ProblemKind.INVALID_REQUEST
    assert nursery.spawned[0].is_killed
    assert nursery.desk.verdict(JOB) == MADE


def test_busy_machine_is_not_the_callers_fault() -> None:
    assert Nursery(Child(LATE)).refusal() is ProblemKind.OVERLOADED


def test_child_that_died_may_have_died_of_something_else() -> None:
    nursery = Nursery(Child(GONE), Child())
    assert nursery.desk.verdict(JOB) == MADE


def test_grammar_that_kills_twice_is_refused() -> None:
    nursery = Nursery(Child(GONE), Child(GONE))
    assert nursery.refusal() is ProblemKind.INVALID_REQUEST
    assert all(child.is_killed for child in nursery.spawned)


@pytest.mark.parametrize("error", [GONE, LATE])
def test_child_that_does_not_start_is_the_servers_fault(error: Exception) -> None:
    nursery = Nursery(Child(starts=error), Child())
    assert nursery.refusal() is ProblemKind.INTERNAL_ERROR
    assert nursery.desk.verdict(JOB) == MADE


def test_child_that_has_grown_is_replaced() -> None:
    nursery = Nursery(Child(sizes=iter((10 * _MIB, 300 * _MIB))), Child())
    assert nursery.desk.verdict(JOB) == MADE
    assert nursery.spawned[0].is_killed
    assert nursery.desk.verdict(JOB) == MADE


def test_after_a_kill_the_next_two_stand_ready() -> None:
    nursery = Nursery(Child(DEAR), Child(), Child())
    nursery.desk.submit(JOB)
    eventually(lambda: len(nursery.spawned) == 3)
    assert len(nursery.answers) == 1
