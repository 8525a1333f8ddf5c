"""An operator's orders, by the name of the model they are for."""

from collections.abc import Mapping

from refloat.supervisor.supervisor import ModelSupervisor
from refloat.wire.problem import ProblemError, ProblemKind


class Control:
    """Implements `api.context.ControlPort`."""

    def __init__(self, supervisors: Mapping[str, ModelSupervisor]) -> None:
        self._supervisors = supervisors

    def reset(self, model: str, *, accept_probe: bool) -> bool:
        """See `ModelSupervisor.reset`. Raises `ProblemError` for a model that has no supervisor."""
        supervisor = self._supervisors.get(model)
        if supervisor is None:
            message = f"The model {model!r} could not be fetched; only a restart tries that again."
            raise ProblemError.of(ProblemKind.CONFLICT, message)
        return supervisor.reset(accept_probe=accept_probe)
