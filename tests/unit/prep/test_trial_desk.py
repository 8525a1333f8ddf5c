"""The desk: what becomes of a wish whose child dies, hangs or does not start."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from refloat.prep.trial.desk import TrialDesk, TrialLimits
from refloat.prep.trial.messages import Compiled
from refloat.prep.trial.process import Answer, ChildGoneError, Job, TooExpensiveError, TrialProcess
from refloat.testing.patience import eventually
from refloat.wire.guide import Guide, GuideKind, GuideRequest
from refloat.wire.prep_messages import CheckGuide, Guided, MakeGuide, PrepRefused, ResumeGuide
from refloat.wire.problem import Problem, ProblemKind

JOB = MakeGuide(1, GuideRequest(GuideKind.JSON, param="field"))
MADE = Guided(1, Guide("root ::= x"))
TRIED = Guided(1, Guide("root ::= x", compile_s=0.5))
WRONG = PrepRefused(1, Problem(ProblemKind.INVALID_REQUEST, "field: wrong."))
GONE = ChildGoneError()
DEAR = TooExpensiveError(by_clock=False)
LATE = TooExpensiveError(by_clock=True)
_MIB = 1 << 20


@dataclass
class Child:
    """A child that does what it is told beforehand."""

    does: Any = field(default_factory=lambda: Compiled(1, 0.5))
    starts: Exception | None = None
    sizes: Iterator[int] = field(default_factory=lambda: iter(()))
    is_slow: bool = False
    is_killed: bool = False
    cpu_s: float = 0.0

    def wait_ready(self, limit_s: float) -> None:
        if self.starts is not None:
            raise self.starts

    def ask(
        self, job: Job, *, cpu_s: float, wall_s: float, takes_long: Callable[[], None]
    ) -> Answer:
        self.cpu_s = cpu_s
        if self.is_slow:
            takes_long()
        if isinstance(self.does, Exception):
            raise self.does
        return self.does

    def resident_bytes(self) -> int:
        return next(self.sizes, 10 * _MIB)

    def kill(self) -> None:
        self.is_killed = True


class Nursery:
    """Spawns these compilers, in order; more than these is a defect. What makes grammars is one."""

    def __init__(
        self, *children: Child, maker: Any = MADE, compiles: bool = True, **more: Any
    ) -> None:
        self._waiting = list(children)
        self.maker = Child(maker)
        self.makers = 0
        self.spawned: list[Child] = []
        self.answers: list[Guided | PrepRefused] = []
        self.desk = TrialDesk(
            ["--x"], self.answers.append, compiles=compiles, spawn=self._spawn, **more
        )

    def _spawn(self, arguments: Sequence[str]) -> TrialProcess:
        if arguments == ["--make"]:
            self.makers += 1
            return cast("TrialProcess", self.maker)
        assert arguments == ["--x"]
        self.spawned.append(self._waiting.pop(0))
        return cast("TrialProcess", self.spawned[-1])

    def refusal(self) -> ProblemKind:
        told = self.desk.verdict(JOB)
        assert isinstance(told, PrepRefused)
        return told.problem.kind


def test_children_are_kept_as_long_as_they_are_well() -> None:
    nursery = Nursery(Child())
    assert [nursery.desk.verdict(JOB) for _ in range(3)] == [TRIED] * 3
    assert (len(nursery.spawned), nursery.makers) == (1, 1)


def test_what_is_refused_without_the_engine_does_not_wait_for_it() -> None:
    assert Nursery(maker=WRONG).desk.verdict(JOB) == WRONG


def test_text_that_is_no_beginning_is_not_tried() -> None:
    assert Nursery(maker=Guided(1, None)).desk.verdict(JOB) == Guided(1, None)


def test_scripted_model_has_no_compiler() -> None:
    assert Nursery(compiles=False).desk.verdict(JOB) == MADE


def test_compilers_refusal_names_the_field() -> None:
    told = Nursery(Child(Compiled(1, refusal="it is odd"))).desk.verdict(JOB)
    assert isinstance(told, PrepRefused)
    assert told.problem.param == "field"
    assert told.problem.message.endswith("it is odd.")


def test_reading_a_long_answer_may_take_longer() -> None:
    nursery = Nursery(Child())
    nursery.desk.verdict(ResumeGuide(1, Guide("root ::= x"), "x" * 10_000))
    limits = TrialLimits()
    least = limits.make_cpu_s + 10_000 * limits.resume_cpu_s_by_char
    assert nursery.maker.cpu_s == pytest.approx(least)
    assert nursery.spawned[0].cpu_s == limits.resume_compile_cpu_s > limits.compile_cpu_s
    nursery.desk.verdict(JOB)
    assert nursery.spawned[0].cpu_s == limits.compile_cpu_s


def test_text_is_held_to_a_guide_without_the_compiler() -> None:
    nursery = Nursery(Child())
    told = nursery.desk.verdict(CheckGuide(1, Guide("root ::= x"), "x" * 10_000, is_whole=True))
    assert told == MADE
    assert nursery.spawned == []
    assert nursery.maker.cpu_s > TrialLimits().make_cpu_s


@pytest.mark.parametrize("is_slow", [False, True])
def test_grammar_that_takes_too_long_costs_its_child_and_is_refused(is_slow: bool) -> None:
    nursery = Nursery(Child(DEAR, is_slow=is_slow), Child())
    assert nursery.refusal() is ProblemKind.INVALID_REQUEST
    assert nursery.spawned[0].is_killed
    assert len(nursery.spawned) == 2, "the next one is started at once"
    assert nursery.desk.verdict(JOB) == TRIED


def test_wish_that_is_too_dear_to_make_a_grammar_of_is_refused() -> None:
    assert Nursery(maker=DEAR).refusal() is ProblemKind.INVALID_REQUEST


def test_busy_machine_is_not_the_callers_fault() -> None:
    assert Nursery(Child(LATE), Child()).refusal() is ProblemKind.OVERLOADED


def test_child_that_died_may_have_died_of_something_else() -> None:
    nursery = Nursery(Child(GONE), Child())
    assert nursery.desk.verdict(JOB) == TRIED


def test_grammar_that_kills_twice_is_refused() -> None:
    nursery = Nursery(Child(GONE), Child(GONE), Child())
    assert nursery.refusal() is ProblemKind.INVALID_REQUEST
    assert [child.is_killed for child in nursery.spawned] == [True, True, False]


@pytest.mark.parametrize("error", [GONE, LATE])
def test_child_that_does_not_start_is_the_servers_fault(error: Exception) -> None:
    nursery = Nursery(Child(starts=error), Child())
    assert nursery.refusal() is ProblemKind.INTERNAL_ERROR
    assert nursery.desk.verdict(JOB) == TRIED


def test_child_that_has_grown_is_replaced() -> None:
    nursery = Nursery(Child(sizes=iter((10 * _MIB, 300 * _MIB))), Child())
    assert nursery.desk.verdict(JOB) == TRIED
    assert nursery.spawned[0].is_killed
    assert nursery.desk.verdict(JOB) == TRIED


def test_next_child_is_ready_while_a_job_takes_long_and_not_kept_for_ever() -> None:
    nursery = Nursery(Child(is_slow=True), Child(), warm_after_s=0.01, relax_after_s=0.01)
    nursery.desk.submit(JOB)
    eventually(lambda: any(child.is_killed for child in nursery.spawned))
    assert [child.is_killed for child in nursery.spawned] == [False, True]
    assert nursery.answers == [TRIED]


def test_children_come_up_before_the_first_job() -> None:
    nursery = Nursery(Child(), warm_after_s=0.01)
    nursery.desk.open()
    eventually(lambda: len(nursery.spawned) == nursery.makers == 1)
