"""All models' generations behind one door: what the api sees of this package."""

import asyncio
from collections.abc import Mapping, Sequence

from refloat.generation.gate import unavailability
from refloat.generation.intake import Intake
from refloat.generation.kept import Attendance
from refloat.generation.request import GenerationRequest, Prompt
from refloat.generation.session import Session
from refloat.generation.streams import Streams
from refloat.supervisor.fleet import Fleet
from refloat.wire.problem import ProblemError, ProblemKind, TooManyTokensError

#: Names listed in an error; more would be an answer in itself.
_MAX_NAMED = 20
#: Ids that `/tokenize` lists. A body of 32 MiB may have eight times as many.
MOST_TOLD_TOKENS = 4 * 1024 * 1024


class Generations:
    """Finds the model by its name. Every method raises `ProblemError`."""

    def __init__(
        self,
        intakes: Mapping[str, Intake],
        fleet: Fleet | None = None,
        streams: Streams | None = None,
    ) -> None:
        """`intakes` is read at every call, so that models may come and go. A model that `fleet` knows
        but that has no intake (it could not even be fetched) is told as what it is there."""
        self._intakes = intakes
        self._fleet = fleet
        self._streams = streams
        if streams is not None:
            streams.ask_for_room(self._others_wait)

    async def submit(self, request: GenerationRequest) -> Session | Attendance:
        """See `Intake.submit`. The caller owes the session a `cancel` if it stops reading early."""
        submit, streams = self._intake(request.model).submit, self._streams
        if streams is None or not streams.wants(request.retention):
            session = await submit(request)
        else:
            session = await streams.open(request, submit)
        if streams is not None:
            streams.make_room(request.model)
        return session

    async def tokenize(self, model: str, prompt: Prompt, tenant: str) -> list[int]:
        """Ids of a prompt, untruncated; works while workers are busy or gone."""
        try:
            return await self._intake(model).tokenize(prompt, tenant, most=MOST_TOLD_TOKENS)
        except TooManyTokensError as error:
            message = f"The prompt has {error.count} tokens; at most {MOST_TOLD_TOKENS} are listed."
            raise ProblemError.of(ProblemKind.REQUEST_TOO_LARGE, message) from None

    async def detokenize(
        self, model: str, ids: Sequence[int], tenant: str, *, skip_special_tokens: bool = True
    ) -> str:
        """Text of these ids."""
        return await self._intake(model).detokenize(
            list(ids), tenant, skip_special_tokens=skip_special_tokens
        )

    async def drain(self, deadline_s: float) -> bool:
        """Drain every model at the same time. Whether all work ended by itself."""
        async with asyncio.TaskGroup() as group:
            drains = [
                group.create_task(intake.dispatch.drain(deadline_s))
                for intake in self._intakes.values()
            ]
        return all(drain.result() for drain in drains)

    @property
    def idle(self) -> bool:
        """Whether no session of any model is under way."""
        return all(intake.dispatch.idle for intake in self._intakes.values())

    def _others_wait(self, model: str, but: frozenset[Session]) -> bool:
        intake = self._intakes.get(model)
        return intake is not None and intake.dispatch.has_waiting(but)

    def _intake(self, model: str) -> Intake:
        intake = self._intakes.get(model)
        if intake is None:
            snapshot = self._fleet.get(model) if self._fleet is not None else None
            problem = unavailability(model, snapshot) if snapshot is not None else None
            if problem is not None:
                raise problem.raised()
            names = [repr(name) for name in self._intakes]
            known = ", ".join(names[:_MAX_NAMED]) or "none"
            if len(names) > _MAX_NAMED:
                known += f" and {len(names) - _MAX_NAMED} more"
            raise ProblemError.of(
                ProblemKind.MODEL_NOT_FOUND,
                f"The model {model!r} does not exist. Models served here: {known}.",
                param="model",
            )
        return intake
