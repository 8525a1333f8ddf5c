"""The stream's clock: withheld status, keep-alives, a client that takes nothing. In process."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest

from refloat.api.encode_chat import ChatEncoder
from refloat.api.errors import ClientGoneError
from refloat.api.sse import EventStream
from refloat.api.translate import Order
from refloat.api.watch import ClientWatch
from refloat.generation.events import (
    ChoiceEnd,
    Completed,
    Delta,
    Event,
    Failed,
    FinishReason,
    Usage,
)
from refloat.generation.request import GenerationRequest, TextPrompt
from refloat.wire.problem import Problem, ProblemKind

DEADLINE_S = 20.0
REQUEST = GenerationRequest("r", "t", "m", (TextPrompt("x"),))
FAILED = Failed(Problem(ProblemKind.ENGINE_ERROR, "no"))
END: list[Event] = [ChoiceEnd(0, FinishReason.STOP), Completed(Usage(1, 1, 0))]


class Session:
    """Events from a queue."""

    request, model, created, fingerprint = REQUEST, "m", 1, "fp"
    stream_id: str | None = None
    after = prompt_tokens = 0
    is_attached = is_overrun = False

    def __init__(self) -> None:
        self.queue: asyncio.Queue[list[Event]] = asyncio.Queue()
        self.take: Callable[[Sequence[Event]], bool] | None = None

    async def next_events(self) -> list[Event]:
        return await self.queue.get()

    def hand_to(self, take: Callable[[Sequence[Event]], bool]) -> None:
        self.take = take

    def cancel(self) -> None:
        raise NotImplementedError


class Wire:
    """Records what is sent; may stop taking anything."""

    def __init__(self) -> None:
        self.messages: list[Any] = []
        self.news = asyncio.Event()
        self.takes = asyncio.Event()
        self.takes.set()

    async def send(self, message: Any) -> None:
        await self.takes.wait()
        self.messages.append(message)
        self.news.set()

    async def until(self, count: int) -> None:
        while len(self.messages) < count:
            self.news.clear()
            await self.news.wait()

    @property
    def bodies(self) -> list[bytes]:
        return [m["body"] for m in self.messages if m["type"] == "http.response.body"]


class Direct:
    """Bodies that were written without `send`."""

    def __init__(self) -> None:
        self.is_open = True
        self.bodies: list[bytes] = []

    def write(self, body: bytes) -> None:
        self.bodies.append(body)


async def stays() -> Any:
    return await asyncio.get_running_loop().create_future()


Scenario = Callable[[EventStream, Session, Wire], Awaitable[None]]


def play(scenario: Scenario, **clock: Any) -> None:
    async def run() -> None:
        async with asyncio.timeout(DEADLINE_S), ClientWatch(stays) as client:
            session, wire = Session(), Wire()
            encoder = ChatEncoder(session, Order(REQUEST))
            stream = EventStream(session, encoder, wire.send, client, **clock)
            await scenario(stream, session, wire)

    asyncio.run(run())


def test_status_waits_for_the_first_event() -> None:
    async def scenario(stream: EventStream, session: Session, wire: Wire) -> None:
        task = asyncio.create_task(stream.run())
        for _ in range(5):
            await asyncio.sleep(0)
        assert wire.messages == []
        session.queue.put_nowait([Delta(0, "a")])
        await wire.until(2)
        assert [m["type"] for m in wire.messages] == ["http.response.start", "http.response.body"]
        session.queue.put_nowait(END)
        assert await task is None
        assert wire.messages[-1]["more_body"] is False

    play(scenario, header_delay_s=DEADLINE_S)


def test_keep_alives_repeat_until_events_come() -> None:
    async def scenario(stream: EventStream, session: Session, wire: Wire) -> None:
        task = asyncio.create_task(stream.run())
        await wire.until(4)
        assert wire.bodies == [b": waiting\n\n"] * 3
        session.queue.put_nowait([Delta(0, "a"), *END])
        assert await task is None
        assert wire.bodies[-1].endswith(b"data: [DONE]\n\n")

    play(scenario, header_delay_s=0.0, keep_alive_s=0.01)


def test_failure_after_a_keep_alive_is_an_event() -> None:
    async def scenario(stream: EventStream, session: Session, wire: Wire) -> None:
        task = asyncio.create_task(stream.run())
        await wire.until(2)
        session.queue.put_nowait([FAILED])
        assert await task is None
        assert wire.bodies[-1].startswith(b'data: {"error":')
        assert wire.bodies[-1].endswith(b"data: [DONE]\n\n")

    play(scenario, header_delay_s=0.0)


def test_failure_before_everything_is_handed_back_and_nothing_is_sent() -> None:
    async def scenario(stream: EventStream, session: Session, wire: Wire) -> None:
        session.queue.put_nowait([Delta(0, "a"), FAILED])
        assert await stream.run() == FAILED.problem
        assert wire.messages == []

    play(scenario, header_delay_s=DEADLINE_S)


def test_events_that_came_together_go_out_together() -> None:
    async def scenario(stream: EventStream, session: Session, wire: Wire) -> None:
        session.queue.put_nowait([Delta(0, "a"), Delta(0, ""), Delta(0, "b"), *END])
        assert await stream.run() is None
        assert len(wire.bodies) == 1
        assert wire.bodies[0].count(b"data: ") == 5  # role, a, b, finish, [DONE]

    play(scenario, header_delay_s=DEADLINE_S)


@pytest.mark.parametrize("begun", [False, True])
def test_client_that_takes_nothing_is_given_up(begun: bool) -> None:
    async def scenario(stream: EventStream, session: Session, wire: Wire) -> None:
        wire.takes.clear()
        if begun:
            session.queue.put_nowait([Delta(0, "a")])
        await stream.run()

    with pytest.raises(ClientGoneError):
        play(scenario, header_delay_s=0.0, keep_alive_s=0.01, send_deadline_s=0.02)


def test_events_are_written_directly_once_the_answer_has_begun_and_there_is_room() -> None:
    direct = Direct()

    async def scenario(stream: EventStream, session: Session, wire: Wire) -> None:
        task = asyncio.create_task(stream.run())
        await asyncio.sleep(0)
        assert session.take is not None
        assert not session.take([Delta(0, "a")]), "there is no status yet"
        session.queue.put_nowait([Delta(0, "a")])
        await wire.until(2)
        assert session.take([Delta(0, "b"), Delta(0, "c")])
        direct.is_open = False
        assert not session.take([Delta(0, "d")])
        direct.is_open = True
        wire.takes.clear()
        session.queue.put_nowait([Delta(0, "d")])
        for _ in range(5):
            await asyncio.sleep(0)
        assert not session.take([Delta(0, "e")]), "what came before it is still being sent"
        wire.takes.set()
        await wire.until(3)
        session.queue.put_nowait(END)
        assert await task is None

    play(scenario, header_delay_s=DEADLINE_S, direct=direct)
    [body] = direct.bodies
    assert [chunk["choices"][0]["delta"] for chunk in map(loads, body.split(b"\n\n")[:-1])] == [
        {"content": "b"},
        {"content": "c"},
    ]


def loads(event: bytes) -> Any:
    return json.loads(event.removeprefix(b"data: "))
