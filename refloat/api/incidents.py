"""The operator's view of incidents: the folder's records, as they are. Reading is done aside."""

from collections.abc import Callable
from typing import TypeVar

import msgspec

from refloat.api.context import ApiContext
from refloat.api.errors import Answer, encode_json
from refloat.api.facts import Call
from refloat.observe.aside import aside
from refloat.observe.incident_record import Incident, IncidentSummary
from refloat.observe.incidents import IncidentStore, UnknownIncidentError
from refloat.wire.problem import ProblemError, ProblemKind

T = TypeVar("T")
_DEADLINE_S = 10.0


class IncidentList(msgspec.Struct, frozen=True):
    """What is on record, newest first."""

    data: list[IncidentSummary]
    object: str = "list"


class Incidents:
    """Handlers of the routes under `/admin/incidents`."""

    def __init__(self, context: ApiContext) -> None:
        self._store = context.incidents

    async def list(self, call: Call) -> Answer:
        """All that are kept."""
        store = self._store
        found = [] if store is None else await _aside(store.summaries)
        return Answer(encode_json(IncidentList(found)))

    async def get(self, call: Call) -> Answer:
        """One, by its id or the short end of it."""
        name, store = call.scope["path_params"]["incident"], self._store
        try:
            if store is None:
                raise UnknownIncidentError(f"no incident is named {name[:80]!r}")
            incident = await _aside(lambda: _read(store, name))
        except UnknownIncidentError as error:
            raise ProblemError.of(ProblemKind.NOT_FOUND, _sentence(error)) from error
        except ValueError as error:
            message = f"The record of this incident cannot be read: {error}."
            raise ProblemError.of(ProblemKind.NOT_FOUND, message) from error
        return Answer(encode_json(incident))


async def _aside(work: Callable[[], T]) -> T:
    """A folder that cannot be read is a state of the machine, said as it is, and not as an unexpected
    exception."""
    try:
        return await aside(work, _DEADLINE_S)
    except OSError as error:
        why = "it took too long" if isinstance(error, TimeoutError) else error.strerror
        message = f"The folder of incidents cannot be read: {why}."
        raise ProblemError.of(ProblemKind.INTERNAL_ERROR, message) from error


def _read(store: IncidentStore, name: str) -> Incident:
    return store.read(store.find(name))


def _sentence(error: UnknownIncidentError) -> str:
    text = str(error)
    return f"{text[:1].upper()}{text[1:]}; GET /admin/incidents lists those there are."
