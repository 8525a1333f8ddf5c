"""What supervision tells of one model, on its way to dispatch: with a line in the log, and a moment to
get ready before anybody is served."""

from collections.abc import Callable

from refloat.generation.dispatch import Dispatch
from refloat.observe.log import get_logger
from refloat.supervisor.fleet import Availability, ModelSnapshot

_log = get_logger(__name__)


class LoggingListener:
    """Dispatch, and a line in the log when a model can be used."""

    def __init__(self, dispatch: Dispatch) -> None:
        self.replica_ready = dispatch.replica_ready
        self.replica_step = dispatch.replica_step
        self.replica_refused = dispatch.replica_refused
        self.replica_suspect = dispatch.replica_suspect
        self.replica_lost = dispatch.replica_lost
        self._model_changed = dispatch.model_changed
        self.on_ready: Callable[[], object] | None = None
        """Called before anybody is served by a model that has become ready."""

    def model_changed(self, snapshot: ModelSnapshot) -> None:
        """Log the change, then pass it on."""
        is_ready, facts = snapshot.availability is Availability.READY, snapshot.facts
        if is_ready and self.on_ready is not None:
            self.on_ready()
        is_expected = is_ready or snapshot.availability is Availability.LOADING
        say = _log.info if is_expected else _log.warning
        say(
            f"model_{snapshot.availability}",
            model=snapshot.name,
            reason=snapshot.reason,
            context_length=facts.context_length if facts else None,
            chat_unavailable=facts.chat_unavailable if facts else None,
        )
        self._model_changed(snapshot)
