"""An operator's orders: for a model, by its name, or for the whole server."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from refloat.supervisor.supervisor import ModelSupervisor
from refloat.wire.problem import ProblemError, ProblemKind


class DrainOrder(NamedTuple):
    """Finish what runs, take nothing new, and end."""

    by: str
    """A signal's name, or `admin`."""
    deadline_s: float | None = None
    """For what runs; `None`: as the settings say."""


class Control:
    """Implements `api.context.ControlPort`."""

    def __init__(
        self,
        supervisors: Mapping[str, ModelSupervisor],
        order_drain: Callable[[DrainOrder], None],
    ) -> None:
        self._supervisors = supervisors
        self._order_drain = order_drain

    def drain(self, deadline_s: float | None) -> None:
        """Begin to drain the server. Does nothing while it drains."""
        self._order_drain(DrainOrder("admin", deadline_s))

    def reset(self, model: str, *, accept_probe: bool) -> bool:
        """See `ModelSupervisor.reset`. Raises `ProblemError` for a model that has no supervisor."""
        supervisor = self._supervisors.get(model)
        if supervisor is None:
            message = f"The model {model!r} could not be fetched; only a restart tries that again."
            raise ProblemError.of(ProblemKind.CONFLICT, message)
        return supervisor.reset(accept_probe=accept_probe)
