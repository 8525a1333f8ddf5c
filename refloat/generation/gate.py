"""Whether a model takes requests, and the wait until it does. Knows the fleet's snapshot alone."""

import asyncio
from collections.abc import Callable
from typing import assert_never

from refloat.generation.limits import Limits
from refloat.supervisor.fleet import Availability, Fleet, ModelFacts, ModelSnapshot
from refloat.wire.faults import FaultKind
from refloat.wire.problem import Problem, ProblemKind

#: Where no estimate is known. What a client can be told in a header is the api's affair.
_DEFAULT_RETRY_AFTER_S = 5.0

#: Problems that pass by themselves, so a request may wait for that.
_PASSING = frozenset({ProblemKind.MODEL_LOADING, ProblemKind.MODEL_RECOVERING})


def unavailability(model: str, snapshot: ModelSnapshot | None) -> Problem | None:
    """What a request for the model meets as it stands; `None`: it is served."""
    availability = Availability.LOADING if snapshot is None else snapshot.availability
    reason = snapshot.reason if snapshot is not None else None
    why = f": {reason}" if reason else "."
    match availability:
        case Availability.READY:
            return None
        case Availability.LOADING:
            kind, text = ProblemKind.MODEL_LOADING, f"The model {model!r} is loading{why}"
        case Availability.RECOVERING:
            kind, text = ProblemKind.MODEL_RECOVERING, f"The model {model!r} is recovering{why}"
        case Availability.FAILED:
            kind, text = _failed_kind(snapshot), f"The model {model!r} has failed{why}"
        case Availability.DRAINING:
            return draining(model)
        case Availability.UNLOADED:
            text = f"The model {model!r} is not loaded on this server."
            return Problem(ProblemKind.MODEL_NOT_FOUND, text, param="model")
        case _:
            assert_never(availability)
    incident_id = snapshot.incident_id if snapshot is not None else None
    return Problem(kind, text, retry_after_s=_retry_after_s(snapshot), incident_id=incident_id)


def _failed_kind(snapshot: ModelSnapshot | None) -> ProblemKind:
    """Too little memory is the machine's trouble and may pass; anything else is the model's."""
    if snapshot is not None and snapshot.cause is FaultKind.OUT_OF_MEMORY:
        return ProblemKind.INSUFFICIENT_MEMORY
    return ProblemKind.MODEL_FAILED


def draining(model: str) -> Problem:
    """Refusal of a model, or a server, that is going away."""
    return Problem(
        ProblemKind.DRAINING,
        f"The model {model!r} is shutting down and takes no new requests.",
        retry_after_s=_DEFAULT_RETRY_AFTER_S,
    )


def _retry_after_s(snapshot: ModelSnapshot | None) -> float | None:
    """`None`: nobody knows, or waiting does not help."""
    estimate = snapshot.retry_after_s if snapshot is not None else None
    has_failed = snapshot is not None and snapshot.availability is Availability.FAILED
    return _DEFAULT_RETRY_AFTER_S if estimate is None and not has_failed else estimate


class Gate:
    """Requests of one model wait here, bounded in number and time, until it is servable."""

    def __init__(
        self, model: str, fleet: Fleet, limits: Limits, clock: Callable[[], float]
    ) -> None:
        self.model = model
        self.is_draining = False
        self._fleet = fleet
        self._limits = limits
        self._clock = clock
        # A dict, for its order: who came first is woken, and so admitted, first.
        self._waiters: dict[asyncio.Future[None], None] = {}

    @property
    def waiting(self) -> int:
        """Requests that wait here."""
        return len(self._waiters)

    @property
    def facts(self) -> ModelFacts | None:
        """What is known of the model, whether it is servable now or not."""
        snapshot = self._fleet.get(self.model)
        return snapshot.facts if snapshot is not None else None

    def problem(self) -> Problem | None:
        """Why a request cannot be served now; `None` if it can."""
        if self.is_draining:
            return draining(self.model)
        snapshot = self._fleet.get(self.model)
        problem = unavailability(self.model, snapshot)
        if problem is None and (snapshot is None or snapshot.facts is None):
            return unavailability(self.model, None)
        return problem

    def refuse_hopeless(self) -> None:
        """Raises `ProblemError` if waiting would not help."""
        problem = self.problem()
        if problem is not None and problem.kind not in _PASSING:
            raise problem.raised()

    async def servable(self, until_s: float) -> None:
        """Return when the model is servable, at once if it is. `until_s` is a reading of the clock.

        Raises `ProblemError`: the model's own problem once the time is over or when waiting cannot
        help; `QUEUE_FULL` when too many wait already.
        """
        while (problem := self.problem()) is not None:
            left_s = until_s - self._clock()
            if problem.kind not in _PASSING or left_s <= 0:
                raise problem.raised()
            if len(self._waiters) >= self._limits.max_queue:
                raise queue_full(self.model, self._back_in_s(problem)).raised()
            if not await self._woken_within(left_s):
                raise (self.problem() or problem).raised()

    def changed(self) -> None:
        """The model's snapshot or this gate changed: everybody looks again."""
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)

    def drain(self) -> None:
        """Refuse everything from now on."""
        self.is_draining = True
        self.changed()

    def _back_in_s(self, problem: Problem) -> float:
        """For one who finds no place to wait for the model: when it may be there."""
        return max(problem.retry_after_s or 0.0, self._limits.retry_after_s)

    async def _woken_within(self, timeout_s: float) -> bool:
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters[waiter] = None
        try:
            async with asyncio.timeout(timeout_s):
                await waiter
        except TimeoutError:
            return False
        finally:
            del self._waiters[waiter]
        return True


def queue_full(model: str, retry_after_s: float) -> Problem:
    """Refusal of a request for which there is no place to wait."""
    return Problem(
        ProblemKind.QUEUE_FULL,
        f"Too many requests wait for the model {model!r}. Try again shortly.",
        retry_after_s=retry_after_s,
    )
