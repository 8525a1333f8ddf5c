"""`/responses/{id}`: a response once more, forgotten, or stopped."""

from refloat.api.context import ApiContext
from refloat.api.errors import Answer, encode_json, invalid
from refloat.api.facts import Call
from refloat.api.generate import Form
from refloat.api.responses.desk import ResponseDesk, UnderWay
from refloat.api.responses.encode import ResponsesEncoder
from refloat.api.schema.responses_answers import ResponseDeleted
from refloat.api.sse import encoded
from refloat.generation.kept import onlooker
from refloat.generation.replay import MissedError
from refloat.wire.problem import ProblemError, ProblemKind


class ResponseRoutes:
    """Handlers of the routes of one response, all of the caller's own tenant."""

    def __init__(self, context: ApiContext, desk: ResponseDesk) -> None:
        self._context = context
        self._desk = desk

    async def retrieve(self, call: Call) -> Answer:
        """As it ended, or as far as it is."""
        response_id = _id(call)
        running = self._running(call.facts.tenant, response_id)
        if running is not None:
            return Answer(encode_json(running.present()))
        return Answer(await self._body(call.facts.tenant, response_id))

    async def delete(self, call: Call) -> Answer:
        """Nobody finds it any more, and no conversation can go on from it."""
        response_id, store = _id(call), self._desk.store
        if store is None or not await store.delete(call.facts.tenant, response_id):
            raise _unknown(response_id)
        return Answer(encode_json(ResponseDeleted(response_id)))

    async def cancel(self, call: Call) -> Answer:
        """Stop one that is under way."""
        response_id = _id(call)
        running = self._running(call.facts.tenant, response_id)
        if running is None:
            await self._body(call.facts.tenant, response_id)
        elif (answer := running.cancel()) is not None:
            return Answer(encode_json(answer))
        raise invalid("This response has ended; there is nothing to cancel.", None)

    def _running(self, tenant: str, response_id: str) -> UnderWay | None:
        """Whoever reads it knows it; one that nobody reads at the moment is told from its recording."""
        found = self._desk.find(tenant, response_id)
        streams = self._context.streams
        if found is not None or streams is None:
            return found
        kept = streams.find(tenant, response_id.removeprefix("resp_"))
        if kept is None or kept.session is None or not isinstance(kept.form, Form):
            return None
        encoder = kept.form.dialect.encoder(onlooker(kept), kept.form.order)
        if not isinstance(encoder, ResponsesEncoder) or encoder.answer_id != response_id:
            return None
        try:
            events = kept.recording.since(0)
        except MissedError:
            return None
        for event in events:
            encoded(encoder, event)
        return encoder

    async def _body(self, tenant: str, response_id: str) -> bytes:
        store = self._desk.store
        stored = await store.get(tenant, response_id) if store is not None else None
        if stored is None:
            raise _unknown(response_id)
        return stored.answer


def _id(call: Call) -> str:
    return str(call.scope["path_params"]["response"])


def _unknown(response_id: str) -> ProblemError:
    message = f"There is no response {response_id[:80]!r}, or it is not kept any more."
    return ProblemError.of(ProblemKind.NOT_FOUND, message)
