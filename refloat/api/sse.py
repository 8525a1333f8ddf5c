"""A stream of server-sent events over raw ASGI: when its status goes out, what keeps it alive, how it
ends. One `send` for all events that have come together; nothing is logged on the way."""

import asyncio
from collections.abc import Sequence
from typing import assert_never

from starlette.types import Send

from refloat.api.context import SessionPort
from refloat.api.encoder import AnswerEncoder
from refloat.api.facts import DirectBody
from refloat.api.watch import ClientWatch
from refloat.generation.events import ChoiceEnd, Completed, Delta, Event, Failed, Parsed
from refloat.wire.problem import Problem

STREAM_HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache"),
    (b"x-accel-buffering", b"no"),
]
STREAM_ID_HEADER = b"x-stream-id"
#: Somebody else's request had begun what this one gets.
ATTACHED_HEADER = (b"idempotent-replayed", b"true")
KEEP_ALIVE_S = 5.0
#: A client that takes nothing for so long is taken for gone, unless the settings say otherwise.
SEND_DEADLINE_S = 60.0


def session_headers(session: SessionPort, answer_id: str | None) -> list[tuple[bytes, bytes]]:
    """What an answer's headers tell of its generation."""
    headers: list[tuple[bytes, bytes]] = [ATTACHED_HEADER] if session.is_attached else []
    if answer_id is not None and session.stream_id is not None:
        headers.append((STREAM_ID_HEADER, answer_id.encode()))
    return headers


class EventStream:
    """Sends one session's events. The status is withheld until the first of them or for a while, so
    that a request that fails early gets an honest one."""

    def __init__(
        self,
        session: SessionPort,
        encoder: AnswerEncoder,
        send: Send,
        client: ClientWatch,
        *,
        header_delay_s: float,
        keep_alive_s: float = KEEP_ALIVE_S,
        send_deadline_s: float = SEND_DEADLINE_S,
        direct: DirectBody | None = None,
    ) -> None:
        """`direct`: by which events go out without a turn of this stream's task, where they can."""
        self._session = session
        self._encoder = encoder
        self._send = send
        self._client = client
        self._header_delay_s = header_delay_s
        self._keep_alive_s = keep_alive_s
        self._send_deadline_s = send_deadline_s
        self._direct = direct
        self._now = asyncio.get_running_loop().time
        self._lock = asyncio.Lock()
        self._started = False
        self._plain = False
        self._role_sent = session.after > 0
        self._ordinal = None if session.stream_id is None else session.after
        """Of the last event, where events carry ids."""
        self._last_s = self._now()
        self._sending_since_s: float | None = None

    async def run(self, *, at_once: bool = False) -> Problem | None:
        """Stream until the terminal event. Returns the problem of a session that failed before
        anything was sent: it gets a plain answer. `at_once`: the status is known to be good."""
        if at_once:
            await self._write(b"", ended=False)
        keeper = asyncio.create_task(self._keep_alive())
        if self._direct is not None:
            direct = self._direct
            self._session.hand_to(lambda events: self._take(direct, events))
        try:
            while True:
                events = await self._session.next_events()
                last = events[-1]
                ended = isinstance(last, Completed | Failed)
                if isinstance(last, Failed) and await self._can_answer_plainly():
                    return last.problem
                await self._write(self._encoded(events), ended=ended)
                if ended:
                    return None
        finally:
            keeper.cancel()
            await asyncio.wait({keeper})
            if not keeper.cancelled() and (failure := keeper.exception()) is not None:
                raise failure

    def _take(self, direct: DirectBody, events: Sequence[Event]) -> bool:
        """Write these events now; false if they have to wait for something."""
        if not self._started or self._lock.locked() or not direct.is_open:
            return False
        direct.write(self._encoded(events))
        self._last_s = self._now()
        return True

    async def _can_answer_plainly(self) -> bool:
        async with self._lock:
            self._plain = not self._started
            return self._plain

    async def fail(self, problem: Problem) -> bool:
        """End a stream that cannot go on. False: nothing was sent yet, a plain answer can be."""
        if await self._can_answer_plainly():
            return False
        await self._write(self._encoder.failure(problem) + self._encoder.done, ended=True)
        return True

    def _encoded(self, events: Sequence[Event]) -> bytes:
        out: list[bytes] = []
        if not self._role_sent and not isinstance(events[0], Failed):
            self._role_sent = True
            out.append(self._encoder.opening())
        for event in events:
            data = encoded(self._encoder, event)
            if self._ordinal is not None:
                self._ordinal += 1
                if data:
                    data = _marked(data, self._ordinal)
            out.append(data)
        return b"".join(out)

    async def _write(self, body: bytes, *, ended: bool) -> None:
        async with self._lock:
            if self._plain:
                return
            self._sending_since_s = self._last_s = self._now()
            if not self._started:
                await self._start()
            if body or ended:
                await self._send_body(body, ended=ended)
            self._sending_since_s = None
            if ended:
                self._client.finish()

    async def _send_body(self, body: bytes, *, ended: bool) -> None:
        await self._send({"type": "http.response.body", "body": body, "more_body": not ended})

    async def _start(self) -> None:
        self._started = True
        headers = STREAM_HEADERS + session_headers(self._session, self._encoder.answer_id)
        await self._send({"type": "http.response.start", "status": 200, "headers": headers})

    async def _keep_alive(self) -> None:
        await asyncio.sleep(self._header_delay_s)
        if not self._started:
            await self._say_waiting()
        while True:
            await asyncio.sleep(self._keep_alive_s)
            now = self._now()
            since = self._sending_since_s
            if since is None:
                if now - self._last_s >= self._keep_alive_s:
                    await self._say_waiting()
            elif self._session.is_overrun or now - since >= self._send_deadline_s:
                self._client.abandon()
                return

    async def _say_waiting(self) -> None:
        try:
            async with asyncio.timeout(self._send_deadline_s):
                await self._write(self._encoder.waiting, ended=False)
        except TimeoutError:
            self._client.abandon()


def encoded(encoder: AnswerEncoder, event: Event) -> bytes:
    """One event as the dialect has it; empty where it has no words for it."""
    match event:
        case Delta():
            return encoder.delta(event) if event.text or event.logprobs else b""
        case Parsed():
            return encoder.part(event)
        case ChoiceEnd():
            return encoder.end(event)
        case Completed():
            return encoder.closing(event.usage) + encoder.done
        case Failed():
            return encoder.failure(event.problem) + encoder.done
        case _:
            assert_never(event)


def _marked(data: bytes, ordinal: int) -> bytes:
    """Events with an id on the last of them: whoever has that one has the others."""
    at = data.rfind(b"\n\n", 0, len(data) - 2)
    at = 0 if at < 0 else at + 2
    return b"%bid: %d\n%b" % (data[:at], ordinal, data[at:])
