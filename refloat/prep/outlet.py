"""Prep's answers, from whichever of its threads."""

import threading

from refloat.wire.frame import FrameError
from refloat.wire.pipe import Pipe
from refloat.wire.prep_messages import Guided, PrepRefused, Text, Tokens, ToPrep
from refloat.wire.problem import Problem, ProblemKind


class Outlet:
    """The sending side of prep's link once jobs come. The main thread alone receives."""

    def __init__(self, pipe: Pipe[ToPrep]) -> None:
        self._pipe = pipe
        self._lock = threading.Lock()

    def answer(self, answer: Tokens | Text | Guided | PrepRefused) -> None:
        """Send an answer, or that it is too large. Raises `LinkClosedError`."""
        with self._lock:
            try:
                self._pipe.send(answer)
            except FrameError:
                text = "the prepared request is too large to be sent"
                self._pipe.send(
                    PrepRefused(answer.job, Problem(ProblemKind.REQUEST_TOO_LARGE, text))
                )
