"""How a wish for a grammar is refused."""

from collections.abc import Sequence

from refloat.wire.prep_messages import GuideJob, MakeGuide, PrepRefused
from refloat.wire.problem import Problem, ProblemKind


def refused(job: GuideJob, why: str, path: Sequence[str] = ()) -> PrepRefused:
    """The refusal of a job, with the field of the caller's that is at fault."""
    param = job.wish.param if isinstance(job, MakeGuide) else ""
    if path and isinstance(job, MakeGuide) and job.wish.kind.is_of_tools:
        number, *path = path  # it is a tool's schema that is at fault, not the choice among them
        param = f"tools[{number}]"
    param = ".".join(part for part in (param, *path) if part)
    text = f"{param}: {why}." if param else f"{why}."
    return PrepRefused(job.job, Problem(ProblemKind.INVALID_REQUEST, text, param=param or None))
