"""Sends one session's answer as a stream, whichever route it was asked for on."""

from refloat.api.context import ApiContext, SessionPort
from refloat.api.encoder import AnswerEncoder
from refloat.api.errors import internal_problem
from refloat.api.facts import Call
from refloat.api.sse import EventStream
from refloat.api.watch import ClientWatch
from refloat.observe.log import get_logger

_log = get_logger(__name__)


async def send_stream(
    context: ApiContext,
    call: Call,
    client: ClientWatch,
    session: SessionPort,
    encoder: AnswerEncoder,
    *,
    at_once: bool = False,
) -> None:
    """All events, to the end. Raises `ProblemError` where nothing was sent and a plain answer is due.

    `at_once`: the status goes out before the first event.
    """
    settings = context.settings
    stream = EventStream(
        session,
        encoder,
        call.send,
        client,
        header_delay_s=settings.header_delay_s,
        send_deadline_s=settings.slow_reader_timeout_s,
        direct=call.direct,
    )
    try:
        problem = await stream.run(at_once=at_once)
    except Exception as error:
        if not await stream.fail(internal_problem(call.facts.request_id)):
            raise
        _log.error("stream broke", route=call.facts.route, exc_info=error)
        return
    if problem is not None:
        raise problem.raised()
