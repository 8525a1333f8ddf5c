"""The way of a generation request through HTTP, the same for every dialect: body, translation, session,
answer. A dialect is its translation and its encoder."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from functools import partial

from msgspec import to_builtins

from refloat.api.body import read_json_body
from refloat.api.caller import Caller, caller_of
from refloat.api.context import ApiContext, SessionPort
from refloat.api.encode_anthropic import MessagesEncoder
from refloat.api.encode_chat import ChatEncoder
from refloat.api.encode_completions import CompletionEncoder
from refloat.api.encoder import AnswerEncoder
from refloat.api.errors import JSON_TYPE, Answer
from refloat.api.facts import Call
from refloat.api.fold import Fold
from refloat.api.lookup import served_model
from refloat.api.responses.desk import ResponseDesk
from refloat.api.responses.encode import ResponsesEncoder
from refloat.api.responses.translate import translate_responses
from refloat.api.sse import session_headers
from refloat.api.streaming import send_stream
from refloat.api.translate import Order, translate_chat, translate_completion
from refloat.api.translate_anthropic import translate_messages
from refloat.api.watch import ClientWatch
from refloat.generation.events import Completed, Failed, Usage
from refloat.generation.kept import Attendance
from refloat.generation.request import GenerationRequest
from refloat.observe.log import get_logger
from refloat.wire.problem import ProblemError

_log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Dialect:
    """One way to order generations."""

    translate: Callable[[bytes, Caller, Callable[[int], None]], Order | Awaitable[Order]]
    """The last argument takes the bytes of what else is held for the request."""
    encoder: Callable[[SessionPort, Order], AnswerEncoder]
    counts_events: bool = False
    """Its encoder numbers what it says: it has to have seen the events before those it tells."""


@dataclass(frozen=True, slots=True)
class Form:
    """How a kept stream is told."""

    dialect: Dialect
    order: Order


CHAT_DIALECT = Dialect(lambda data, caller, _: translate_chat(data, caller), ChatEncoder)
COMPLETION_DIALECT = Dialect(
    lambda data, caller, _: translate_completion(data, caller), CompletionEncoder
)
MESSAGES_DIALECT = Dialect(
    lambda data, caller, _: translate_messages(data, caller), MessagesEncoder, counts_events=True
)


def responses_dialect(desk: ResponseDesk) -> Dialect:
    """That of `/responses`, which knows what was said before."""
    return Dialect(
        partial(translate_responses, desk), partial(ResponsesEncoder, desk), counts_events=True
    )


class Generate:
    """Handler of one generating route."""

    def __init__(self, context: ApiContext, dialect: Dialect) -> None:
        self._context = context
        self._dialect = dialect

    async def __call__(self, call: Call) -> Answer | None:
        """The whole answer, or `None` once a stream has been sent."""
        facts = call.facts
        with self._context.allowance.taken(facts.tenant, facts.grant):
            return await self._served(call)

    async def _served(self, call: Call) -> Answer | None:
        context = self._context
        limit = context.settings.max_body_bytes
        with await read_json_body(call, limit=limit, budget=context.budget) as body:
            caller = caller_of(call, finish_orphans=context.settings.finish_orphans)
            ordered = self._dialect.translate(body.take(), caller, body.hold)
            order = ordered if isinstance(ordered, Order) else await ordered
            call.facts.model = served_model(context.fleet, order.request.model).name
            if context.settings.log_prompts:
                _log.info("prompts", prompts=[to_builtins(p) for p in order.request.prompts])
            async with ClientWatch(call.receive, call.abort) as client:
                session = await self._submit(order.request)
                try:
                    self._note_form(session, order)
                    encoder = self._dialect.encoder(session, order)
                    if not order.stream:
                        body_bytes = await _whole(session, encoder, order)
                        return Answer(
                            body_bytes,
                            headers=[JSON_TYPE, *session_headers(session, encoder.answer_id)],
                        )
                    return await send_stream(context, call, client, session, encoder)
                finally:
                    session.cancel()

    def _note_form(self, session: SessionPort, order: Order) -> None:
        """For whoever asks for the same stream by its id."""
        if isinstance(session, Attendance) and session.kept.form is None:
            session.kept.form = Form(self._dialect, replace(order, request=session.request))

    async def _submit(self, request: GenerationRequest) -> SessionPort:
        try:
            return await self._context.generations.submit(request)
        except asyncio.CancelledError:
            # there is no session yet that would count it
            self._context.metrics.aborted.labels(request.model).inc()
            raise


async def _whole(session: SessionPort, encoder: AnswerEncoder, order: Order) -> bytes:
    request = order.request
    fold = Fold(len(request.prompts) * request.n)
    return encoder.whole(fold, await _fold_all(session, fold))


async def _fold_all(session: SessionPort, fold: Fold) -> Usage:
    """Read a session to its end. Raises `ProblemError` if it failed."""
    while True:
        for event in await session.next_events():
            if isinstance(event, Completed):
                return event.usage
            if isinstance(event, Failed):
                raise ProblemError(event.problem)
            fold.push(event)
