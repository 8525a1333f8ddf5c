"""The asyncio end of a link, over real socketpairs."""

import asyncio
import contextlib
import os
import socket
from collections.abc import Awaitable, Callable

import msgspec
import pytest

from refloat.wire.faults import FaultKind
from refloat.wire.frame import MAX_FRAME_BYTES, FrameBuffer, FrameError, encode_frame
from refloat.wire.link import Link, LinkEnd
from refloat.wire.messages import (
    Cancel,
    FaultFired,
    FromWorker,
    Output,
    Shutdown,
    Step,
    WorkerFault,
)
from refloat.wire.prep_messages import Text

_DEADLINE_S = 20.0


class End:
    """A link under test, what it reported, and the raw socket of the other side."""

    def __init__(self, *, max_pending_bytes: int = MAX_FRAME_BYTES) -> None:
        ours, self.peer = socket.socketpair()
        self.messages: list[msgspec.Struct] = []
        self.ends: list[tuple[LinkEnd, str]] = []
        self.changed = asyncio.Event()
        self.link: Link[msgspec.Struct] = Link(
            ours,
            FromWorker,
            on_message=self.take,
            on_end=self.end,
            max_pending_bytes=max_pending_bytes,
        )

    def take(self, message: msgspec.Struct) -> None:
        self.messages.append(message)
        self.changed.set()

    def end(self, end: LinkEnd, detail: str) -> None:
        self.ends.append((end, detail))
        self.changed.set()

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(_DEADLINE_S):
            while not condition():
                self.changed.clear()
                await self.changed.wait()

    async def ended(self) -> LinkEnd:
        await self.until(lambda: bool(self.ends))
        return self.ends[0][0]

    def close(self) -> None:
        self.link.close()
        self.peer.close()


def run(scenario: Callable[[End], Awaitable[None]], **options: int) -> None:
    async def whole() -> None:
        end = End(**options)
        try:
            await scenario(end)
        finally:
            end.close()

    asyncio.run(whole())


def test_link_frames_cut_anywhere_arrive_whole_and_in_order() -> None:
    messages = [FaultFired(index) for index in range(50)]
    stream = b"".join(encode_frame(message) for message in messages)

    async def scenario(end: End) -> None:
        for position in range(0, len(stream), 7):
            end.peer.sendall(stream[position : position + 7])
            await asyncio.sleep(0)
        await end.until(lambda: len(end.messages) == len(messages))
        assert end.messages == messages

    run(scenario)


def test_link_whose_socket_is_full_leaves_others_their_turn() -> None:
    frame = encode_frame(FaultFired(1))

    async def scenario(end: End) -> None:
        end.peer.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            while True:
                end.peer.sendall(frame * 1000)
        most = before = 0
        while before == 0 or len(end.messages) > before:
            before = len(end.messages)
            await asyncio.sleep(0)
            most = max(most, len(end.messages) - before)
        assert before * len(frame) > 100_000
        assert most * len(frame) < 40_000

    run(scenario)


def test_link_peer_closed_between_frames_ends_once_with_eof() -> None:
    async def scenario(end: End) -> None:
        end.peer.sendall(encode_frame(FaultFired(1)))
        end.peer.close()
        assert await end.ended() is LinkEnd.EOF
        end.link.drain()
        end.link.send(Shutdown())
        assert len(end.ends) == 1
        assert end.messages == [FaultFired(1)]

    run(scenario)


def test_link_peer_closed_inside_a_frame_ends_torn() -> None:
    async def scenario(end: End) -> None:
        end.peer.sendall(encode_frame(FaultFired(1))[:-1])
        end.peer.close()
        assert await end.ended() is LinkEnd.TORN
        assert end.messages == []

    run(scenario)


@pytest.mark.parametrize(
    "garbage",
    [
        b"\xff" * 64,
        (MAX_FRAME_BYTES + 1).to_bytes(4, "big"),
        b"\x00\x00\x00\x00",
        b"\x00\x00\x00\x01\xc1",
        encode_frame(Text(1, "not for a worker to say")),
        encode_frame(Cancel(1, 1)),
        b"\x00\x00\x00\x06" + b"\xdd\xff\xff\xff\xff\x00",
        b"\x00\x00\xff\xff" + b"\x91" * 0xFFFF,
        encode_frame(Step(1, (Output(1, 1, 0, (2**31,)),))),
        encode_frame(Step(1, (Output(1, 1, 0, (-1,)),))),
    ],
    ids=[
        "bytes",
        "oversize",
        "empty",
        "no-msgpack",
        "prep",
        "own",
        "huge-array",
        "deep",
        "large-id",
        "negative-id",
    ],
)
def test_link_garbage_ends_it_and_keeps_what_came_before(garbage: bytes) -> None:
    async def scenario(end: End) -> None:
        end.peer.sendall(encode_frame(FaultFired(7)) + garbage + encode_frame(FaultFired(8)))
        assert await end.ended() is LinkEnd.GARBAGE
        assert end.messages == [FaultFired(7)]

    run(scenario)


def test_link_send_to_a_slow_reader_delivers_everything_later() -> None:
    count = 2_000
    chunk = WorkerFault(FaultKind.STALL, "x" * 1_000, "step")

    async def scenario(end: End) -> None:
        end.peer.setblocking(False)
        for _ in range(count):
            end.link.send(chunk)
        assert end.link.pending_bytes > 0
        received, loop = FrameBuffer(), asyncio.get_running_loop()
        frames = 0
        async with asyncio.timeout(_DEADLINE_S):
            while frames < count:
                received.feed(await loop.sock_recv(end.peer, 65_536))
                frames += sum(1 for _ in received.payloads())
        assert frames == count
        assert end.link.pending_bytes == 0
        assert end.ends == []

    run(scenario)


def test_link_overflow_ends_it_but_not_inside_send() -> None:
    async def scenario(end: End) -> None:
        chunk = WorkerFault(FaultKind.STALL, "x" * 100_000, "step")
        for _ in range(20):
            end.link.send(chunk)
        assert end.ends == []
        assert await end.ended() is LinkEnd.OVERFLOW
        assert end.link.pending_bytes == 0

    run(scenario, max_pending_bytes=300_000)


def test_link_send_to_a_dead_peer_still_delivers_its_last_words() -> None:
    async def scenario(end: End) -> None:
        last = WorkerFault(FaultKind.CONTEXT_FATAL, "CL_OUT_OF_RESOURCES", "stepping")
        end.peer.sendall(encode_frame(last))
        end.peer.close()
        end.link.send(Shutdown())
        assert await end.ended() is LinkEnd.EOF
        assert end.messages == [last]
        assert len(end.ends) == 1

    run(scenario)


def test_link_peer_that_only_stopped_reading_ends_it() -> None:
    async def scenario(end: End) -> None:
        end.peer.shutdown(socket.SHUT_RD)
        end.link.send(Shutdown())
        assert await end.ended() is LinkEnd.EOF

    run(scenario)


def test_link_frame_too_long_raises_and_leaves_the_link_alive() -> None:
    async def scenario(end: End) -> None:
        with pytest.raises(FrameError):
            end.link.send(WorkerFault(FaultKind.STALL, "x" * (MAX_FRAME_BYTES + 1), ""))
        end.link.send(Shutdown())
        assert end.peer.recv(100) == encode_frame(Shutdown())

    run(scenario)


def test_link_closed_inside_a_message_delivers_no_further_message() -> None:
    async def scenario(end: End) -> None:
        taken: list[msgspec.Struct] = []

        def take_and_close(message: msgspec.Struct) -> None:
            taken.append(message)
            closing.close()

        ours, theirs = socket.socketpair()
        closing: Link[msgspec.Struct] = Link(
            ours, FromWorker, on_message=take_and_close, on_end=end.end
        )
        with theirs:
            theirs.sendall(encode_frame(FaultFired(1)) * 3)
            closing.drain()
        closing.close()
        assert taken == [FaultFired(1)]
        assert end.ends == []

    run(scenario)


def test_link_finish_lets_the_peer_read_eof_while_it_may_still_speak() -> None:
    async def scenario(end: End) -> None:
        end.link.send(Shutdown())
        end.link.finish()
        end.link.send(Shutdown())
        assert end.peer.recv(1_000) == encode_frame(Shutdown())
        assert end.peer.recv(1_000) == b""
        end.peer.sendall(encode_frame(Step(1, ())))
        await end.until(lambda: bool(end.messages))
        assert end.ends == []

    run(scenario)


def test_link_close_releases_the_descriptor_and_reports_nothing() -> None:
    async def scenario(end: End) -> None:
        before = len(os.listdir("/proc/self/fd"))
        other = End()
        other.close()
        other.link.close()
        await asyncio.sleep(0)
        assert len(os.listdir("/proc/self/fd")) == before
        assert other.ends == []
        assert end.ends == []

    run(scenario)


def test_link_knows_of_what_has_arrived_and_was_not_read() -> None:
    async def scenario(end: End) -> None:
        assert not end.link.has_unread()
        end.peer.sendall(encode_frame(FaultFired(1)))
        assert end.link.has_unread()
        await end.until(lambda: bool(end.messages))
        assert not end.link.has_unread()
        end.link.close()
        assert not end.link.has_unread()

    run(scenario)
