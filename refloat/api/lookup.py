"""Finding a model by the name that a client gave."""

from refloat.supervisor.fleet import Fleet, ModelSnapshot
from refloat.wire.problem import ProblemError, ProblemKind


def served_model(fleet: Fleet, name: str) -> ModelSnapshot:
    """The model of that name, whatever its state. Raises `ProblemError` (404)."""
    snapshot = fleet.get(name)
    if snapshot is None:
        message = (
            f"The model {name[:200]!r} is not served here; GET /v1/models lists those that are."
        )
        raise ProblemError.of(ProblemKind.MODEL_NOT_FOUND, message, param="model")
    return snapshot
