"""Where wishes for grammars are worked off, one after another: a child without the engine makes a
grammar of a wish, and one with the engine's compiler tries it. So what can be refused without the
engine is refused at once. A thread of its own, so that rendering and tokenizing go on meanwhile.
"""

import os
import threading
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from queue import Empty, SimpleQueue

import msgspec

from refloat.prep.trial.messages import Compile, Compiled
from refloat.prep.trial.process import ChildGoneError, Job, TooExpensiveError, TrialProcess
from refloat.prep.trial.refusal import refused
from refloat.prep.trial.relay import NotStartedError, Relay
from refloat.wire.child import report
from refloat.wire.exit_codes import ChildExit
from refloat.wire.pipe import LinkClosedError
from refloat.wire.prep_messages import (
    CheckGuide,
    Guided,
    GuideJob,
    MakeGuide,
    PrepRefused,
    ResumeGuide,
)
from refloat.wire.problem import Problem, ProblemKind

#: Children that one job may take with it: the first may have died of something else.
_LIVES = 2


@dataclass(frozen=True, slots=True)
class TrialLimits:
    """What one trial may take. Those of processor time together are what a hostile wish costs."""

    make_cpu_s: float = 0.7
    """For making a grammar of a wish."""
    resume_cpu_s_by_char: float = 0.0004
    """For reading what was said already: it is as long as it is, and the engine is not kept by it."""
    compile_cpu_s: float = 1.1
    """The worker will need it once more, in the midst of everybody's answers."""
    resume_compile_cpu_s: float = 3.0
    """What is left of a grammar that was taken must not fail for being a little dearer than that."""
    wall_s: float = 20.0
    """For a machine that is so busy that nothing can be said of the grammar."""
    start_s: float = 30.0
    """For a child to come up."""


class TrialDesk:
    """`submit` from any thread; every job is answered once."""

    def __init__(
        self,
        arguments: Sequence[str],
        answer: Callable[[Guided | PrepRefused], None],
        *,
        compiles: bool,
        limits: TrialLimits | None = None,
        spawn: Callable[[Sequence[str]], TrialProcess] = TrialProcess,
        warm_after_s: float = 10.0,
        relax_after_s: float = 60.0,
    ) -> None:
        """`arguments` name the model to the child that compiles, if there is to be one (`compiles`).
        `answer` is called from the desk's thread. Children are started with the first job, or once the
        desk was idle for `warm_after_s`: the model's own load comes first."""
        self._answer = answer
        self._limits = limits = limits or TrialLimits()
        self._makers = Relay(lambda: spawn(["--make"]), start_s=limits.start_s)
        self._compilers = (
            Relay(lambda: spawn(arguments), start_s=limits.start_s) if compiles else None
        )
        self._patience_s, self._relax_after_s = warm_after_s, relax_after_s
        self._jobs: SimpleQueue[GuideJob] = SimpleQueue()
        self._thread: threading.Thread | None = None

    def open(self) -> None:
        """Begin to work, and to have children ready."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="trials", daemon=True)
            self._thread.start()

    def submit(self, job: GuideJob) -> None:
        """Take a job."""
        self.open()
        self._jobs.put(job)

    def _run(self) -> None:
        try:
            while True:
                self._work()
        except LinkClosedError:
            os._exit(ChildExit.ASKED)
        except BaseException:  # noqa: BLE001 - reported; prep is of no use without it
            report("refloat-prep", traceback.format_exc())
            os._exit(ChildExit.INTERNAL)

    def _work(self) -> None:
        relays = [relay for relay in (self._makers, self._compilers) if relay is not None]
        try:
            job = self._jobs.get(timeout=self._patience_s)
        except Empty:
            job = None
        self._patience_s = self._relax_after_s
        for relay in relays:
            relay.warm()
            if job is None:
                relay.relax()
        if job is not None:
            self._answer(self.verdict(job))

    def verdict(self, job: GuideJob) -> Guided | PrepRefused:
        """The answer to one job, whatever becomes of children."""
        made = self._made(job)
        if isinstance(made, PrepRefused) or made.guide is None or self._compilers is None:
            return made
        if isinstance(job, CheckGuide):
            return made
        limit_s = self._limits.compile_cpu_s
        if isinstance(job, ResumeGuide):
            limit_s = self._limits.resume_compile_cpu_s
        tried = self._asked(self._compilers, job, Compile(job.job, made.guide.ebnf), limit_s)
        match tried:
            case Compiled(refusal=None):
                guide = msgspec.structs.replace(made.guide, compile_s=tried.took_s)
                return Guided(job.job, guide)
            case Compiled():
                return refused(job, f"the grammar engine does not take it: {tried.refusal}")
            case _:
                return tried

    def _made(self, job: GuideJob) -> Guided | PrepRefused:
        limit_s = self._limits.make_cpu_s
        if not isinstance(job, MakeGuide):
            limit_s += self._limits.resume_cpu_s_by_char * len(job.emitted)
        made = self._asked(self._makers, job, job, limit_s)
        return _unable(job, "it was made wrongly") if isinstance(made, Compiled) else made

    def _asked(
        self, relay: Relay, job: GuideJob, message: Job, cpu_s: float
    ) -> Guided | PrepRefused | Compiled:
        for _ in range(_LIVES):
            try:
                return relay.ask(message, cpu_s=cpu_s, wall_s=self._limits.wall_s + cpu_s)
            except NotStartedError:
                return _unable(job, "the grammar engine does not start")
            except TooExpensiveError as error:
                if error.by_clock:
                    return _unable(job, "the machine is too busy to try a grammar", busy=True)
                return refused(job, "it takes too long to make or to compile a grammar of it")
            except ChildGoneError:
                continue
        return refused(
            job, "it cannot be compiled (the grammar engine fails or needs too much memory)"
        )


def _unable(job: GuideJob, why: str, *, busy: bool = False) -> PrepRefused:
    """Nobody's fault but the server's."""
    kind = ProblemKind.OVERLOADED if busy else ProblemKind.INTERNAL_ERROR
    return PrepRefused(job.job, Problem(kind, f"The answer's form could not be prepared: {why}."))
