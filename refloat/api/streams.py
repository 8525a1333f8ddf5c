"""`GET /v1/streams/{id}`: a kept stream once more, from wherever its reader had come to."""

import re
from urllib.parse import parse_qs

from refloat.api.context import ApiContext
from refloat.api.encoder import AnswerEncoder
from refloat.api.errors import Answer, invalid
from refloat.api.facts import Call
from refloat.api.generate import Form
from refloat.api.sse import STREAM_HEADERS, encoded, session_headers
from refloat.api.streaming import send_stream
from refloat.api.watch import ClientWatch
from refloat.generation.events import Delta
from refloat.generation.kept import Attendance, Kept
from refloat.generation.replay import MissedError
from refloat.wire.problem import ProblemError, ProblemKind

_MAX_DIGITS = 12


class StreamRoutes:
    """Handlers of the routes of kept streams."""

    def __init__(self, context: ApiContext) -> None:
        self._context = context

    async def resume(self, call: Call) -> Answer | None:
        """Everything behind `?after=` or `Last-Event-ID`, and then what comes."""
        streams, kept = self._context.streams, self._found(call)
        form, after = kept.form, _after(call)
        if streams is None or not isinstance(form, Form):
            raise _unknown()
        if after > kept.recording.last:
            message = f"This stream has {kept.recording.last} events so far, not {after}."
            raise invalid(message, "after")
        call.facts.model = kept.model
        async with ClientWatch(call.receive, call.abort) as client:
            try:
                attendance = streams.resume(kept, after)
            except MissedError as error:
                message = f"Of this stream {error}."
                raise ProblemError.of(ProblemKind.NOT_FOUND, message, param="after") from None
            try:
                return await self._send(call, client, attendance, form)
            finally:
                attendance.cancel()

    async def _send(
        self, call: Call, client: ClientWatch, attendance: Attendance, form: Form
    ) -> Answer | None:
        encoder = form.dialect.encoder(attendance, form.order)
        if attendance.is_at_end or call.scope["method"] == "HEAD":
            headers = STREAM_HEADERS + session_headers(attendance, encoder.answer_id)
            return Answer(encoder.done if attendance.is_at_end else b"", headers=headers)
        recording = attendance.kept.recording
        if form.dialect.counts_events and attendance.after:
            _count_again(encoder, attendance)
        elif form.order.request.sampling.logprobs and not recording.dropped:
            for event in recording.since(0)[: attendance.after]:
                if isinstance(event, Delta):  # offsets of tokens count from the beginning
                    encoder.delta(event)
        return await send_stream(self._context, call, client, attendance, encoder, at_once=True)

    def _found(self, call: Call) -> Kept:
        stream_id = re.split("[-_]", str(call.scope["path_params"]["stream"]))[-1]
        streams = self._context.streams
        kept = streams.find(call.facts.tenant, stream_id) if streams is not None else None
        if kept is None:
            raise _unknown()
        return kept


def _count_again(encoder: AnswerEncoder, attendance: Attendance) -> None:
    """Let an encoder that numbers what it says see what was said. Raises `ProblemError`."""
    recording = attendance.kept.recording
    if recording.dropped:
        message = "The beginning of this stream, without which the rest has no form, is not kept."
        raise ProblemError.of(ProblemKind.NOT_FOUND, message, param="after")
    encoder.opening()
    for event in recording.since(0)[: attendance.after]:
        encoded(encoder, event)


def _unknown() -> ProblemError:
    message = "There is no such stream, or it is not kept any more."
    return ProblemError.of(ProblemKind.NOT_FOUND, message)


def _after(call: Call) -> int:
    """The query wins: whoever writes it means it."""
    query = parse_qs(call.scope["query_string"].decode("latin-1"), keep_blank_values=True)
    if "after" in query:
        text, param = query["after"][-1], "after"
    else:
        text, param = (call.header(b"last-event-id") or b"0").decode("latin-1"), "Last-Event-ID"
    if not text.isascii() or not text.isdigit() or len(text) > _MAX_DIGITS:
        raise invalid(f"{param} has to be the id of an event of this stream.", param)
    return int(text)
