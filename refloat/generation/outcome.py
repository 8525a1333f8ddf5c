"""The problems with which requests end after they were accepted, in words for their callers. Pure."""

import msgspec

from refloat.generation.gate import unavailability
from refloat.generation.journal import Journal
from refloat.supervisor.fleet import ModelSnapshot
from refloat.wire.problem import Problem, ProblemKind


def with_progress(problem: Problem, tokens_emitted: int, *, resumable: bool) -> Problem:
    """The same problem for a caller who holds tokens already; as it is for one who holds none."""
    if not tokens_emitted:
        return problem
    return msgspec.structs.replace(problem, tokens_emitted=tokens_emitted, resumable=resumable)


def with_incident(problem: Problem, incident_id: str | None) -> Problem:
    """The same problem, naming the incident in which its request lost its worker."""
    if incident_id is None or problem.incident_id is not None:
        return problem
    return msgspec.structs.replace(problem, incident_id=incident_id)


def deadline_exceeded() -> Problem:
    """The request's own time is over."""
    return Problem(
        ProblemKind.DEADLINE_EXCEEDED, "The request was not complete before its deadline."
    )


def engine_gave_up() -> Problem:
    """The engine stopped this generation again and again without going on."""
    return Problem(
        ProblemKind.ENGINE_ERROR,
        "The engine stopped this generation before its end, again after it was resumed.",
    )


def poisonous(incident_id: str | None) -> Problem:
    """Convicted: see `suspects.py`."""
    return Problem(
        ProblemKind.POISON_REQUEST,
        "This request by itself ends the process that works on it: alone, at the same place again, "
        "and with safer settings too. It is not tried any more.",
        incident_id=incident_id,
        resumable=False,
    )


def cannot_resume() -> Problem:
    """Its worker is lost and its engine cannot go on from emitted tokens."""
    return Problem(
        ProblemKind.ENGINE_ERROR,
        "The engine was lost in mid-generation, and this model cannot go on from where it stood.",
    )


def not_recovered(model: str, snapshot: ModelSnapshot | None) -> Problem:
    """The model did not come back in time, or will not come back."""
    problem = unavailability(model, snapshot)
    if problem is not None:
        return problem
    return Problem(
        ProblemKind.MODEL_RECOVERING,
        f"The model {model!r} did not recover in time.",
        retry_after_s=5.0,
    )


def never_fits(journal: Journal) -> Problem:
    """The cache of every worker is smaller than this generation needs (it was larger before)."""
    if journal.emitted:
        return Problem(
            ProblemKind.INSUFFICIENT_MEMORY,
            "The model came back with too small a KV cache to go on with this generation.",
        )
    return Problem(
        ProblemKind.CONTEXT_LENGTH_EXCEEDED,
        f"This request needs {journal.tokens_needed} tokens ({len(journal.prompt)} in the prompt, "
        f"{journal.params.max_tokens} in the completion), more than the model's KV cache holds. "
        "Please reduce the length of the prompt or of the completion.",
    )
