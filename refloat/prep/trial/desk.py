"""Where wishes for grammars are worked off: one after another, in a child that is replaced when it has
to be killed. A thread of its own, so that rendering and tokenizing go on meanwhile.
"""

import os
import threading
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from queue import SimpleQueue

from refloat.prep.trial.process import ChildGoneError, TooExpensiveError, TrialProcess
from refloat.prep.trial.program import Trial, refused
from refloat.wire.child import report
from refloat.wire.exit_codes import ChildExit
from refloat.wire.pipe import LinkClosedError
from refloat.wire.prep_messages import Guided, PrepRefused
from refloat.wire.problem import Problem, ProblemKind

#: A child that has lived through so much is replaced: the engine keeps what it has compiled.
_MOST_GROWN_BYTES = 256 << 20
#: Children that one job may take with it: the first may have died of something else.
_LIVES = 2


@dataclass(frozen=True, slots=True)
class TrialLimits:
    """What one trial may take."""

    cpu_s: float = 1.5
    """Processor time. The worker will need it once more, in the midst of everybody's answers."""
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
        limits: TrialLimits | None = None,
        spawn: Callable[[Sequence[str]], TrialProcess] = TrialProcess,
    ) -> None:
        """Nothing is started before the first job. `answer` is called from the desk's thread."""
        self._arguments = arguments
        self._answer = answer
        self._limits = limits or TrialLimits()
        self._spawn = spawn
        self._jobs: SimpleQueue[Trial] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._child: TrialProcess | None = None
        self._spare: TrialProcess | None = None
        """Stands ready from the first kill on: whoever sends one hostile grammar sends another."""
        self._has_killed = False
        self._fresh_bytes = 0

    def submit(self, job: Trial) -> None:
        """Take a job."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="trials", daemon=True)
            self._thread.start()
        self._jobs.put(job)

    def _run(self) -> None:
        try:
            while True:
                self._answer(self.verdict(self._jobs.get()))
                self._prepare()
        except LinkClosedError:
            os._exit(ChildExit.ASKED)
        except BaseException:  # noqa: BLE001 - reported; prep is of no use without it
            report("refloat-prep", traceback.format_exc())
            os._exit(ChildExit.INTERNAL)

    def verdict(self, job: Trial) -> Guided | PrepRefused:
        """The answer to one job, whatever becomes of children."""
        limits = self._limits
        for _ in range(_LIVES):
            try:
                child = self._ready_child()
            except (ChildGoneError, TooExpensiveError):
                self._drop()
                return _unable(job, "the grammar engine does not start")
            try:
                answer = child.ask(job, cpu_s=limits.cpu_s, wall_s=limits.wall_s)
            except TooExpensiveError as error:
                self._replace()
                if error.by_clock:
                    return _unable(job, "the machine is too busy to try a grammar", busy=True)
                return refused(job, "it takes the grammar engine too long to compile")
            except ChildGoneError:
                self._replace()
                continue
            if child.resident_bytes() > self._fresh_bytes + _MOST_GROWN_BYTES:
                self._replace()
            return answer
        return refused(
            job, "the grammar engine cannot compile it (it fails or needs too much memory)"
        )

    def _ready_child(self) -> TrialProcess:
        if self._child is None:
            self._child = self._spare or self._spawn(self._arguments)
            self._spare = None
        self._child.wait_ready(self._limits.start_s)
        self._fresh_bytes = self._fresh_bytes or self._child.resident_bytes()
        return self._child

    def _replace(self) -> None:
        """End this one; `_prepare` sees to the next."""
        self._drop()
        self._has_killed = True

    def _prepare(self) -> None:
        """Between two jobs, and from the first kill on: one child ready and another behind it."""
        if not self._has_killed:
            return
        if self._child is None:
            self._child, self._spare = self._spare or self._spawn(self._arguments), None
        if self._spare is None and self._child.is_ready:
            self._spare = self._spawn(self._arguments)

    def _drop(self) -> None:
        if self._child is not None:
            self._child.kill()
            self._child = None


def _unable(job: Trial, why: str, *, busy: bool = False) -> PrepRefused:
    """Nobody's fault but the server's."""
    kind = ProblemKind.OVERLOADED if busy else ProblemKind.INTERNAL_ERROR
    return PrepRefused(job.job, Problem(kind, f"The answer's form could not be prepared: {why}."))
