"""The blocking end of a link: whole messages, EOF as a value, garbage as an error."""

import socket
import threading
from collections.abc import Iterator

import pytest

from refloat.wire.frame import FrameError, encode_frame
from refloat.wire.messages import Cancel, Shutdown, ToWorker
from refloat.wire.pipe import EOF, LinkClosedError, Pipe

Ends = tuple[Pipe[ToWorker], socket.socket]


@pytest.fixture
def ends() -> Iterator[Ends]:
    ours, theirs = socket.socketpair()
    pipe = Pipe[ToWorker](ours.detach(), ToWorker)
    yield pipe, theirs
    pipe.close()
    theirs.close()


def test_recv_gives_messages_in_order_however_they_were_cut(ends: Ends) -> None:
    pipe, other = ends
    data = encode_frame(Cancel(1, 2)) + encode_frame(Shutdown())
    for position in range(len(data)):
        other.sendall(data[position : position + 1])
    assert pipe.recv(5) == Cancel(1, 2)
    assert pipe.recv(5) == Shutdown()


def test_recv_without_a_message_gives_none_in_time(ends: Ends) -> None:
    pipe, other = ends
    assert pipe.recv(0) is None
    other.sendall(encode_frame(Shutdown())[:-1])
    assert pipe.recv(0) is None
    assert pipe.recv(0.01) is None


def test_recv_gives_whole_messages_before_the_end(ends: Ends) -> None:
    pipe, other = ends
    other.sendall(encode_frame(Cancel(1, 1)) + encode_frame(Shutdown())[:-2])
    other.close()
    assert pipe.recv() == Cancel(1, 1)
    assert pipe.recv() is EOF
    assert pipe.recv(0) is EOF


@pytest.mark.parametrize("junk", [b"\xff" * 8, b"\x00\x00\x00\x01\xc1", b"\x00\x00\x00\x00"])
def test_recv_gives_whole_messages_before_garbage_and_raises_ever_after(
    ends: Ends, junk: bytes
) -> None:
    pipe, other = ends
    other.sendall(encode_frame(Cancel(1, 1)) + junk + encode_frame(Shutdown()))
    assert pipe.recv() == Cancel(1, 1)
    for _ in range(2):
        with pytest.raises(FrameError):
            pipe.recv(5)


def test_send_to_nobody_says_so(ends: Ends) -> None:
    pipe, other = ends
    other.close()
    with pytest.raises(LinkClosedError):
        pipe.send(Shutdown())


def test_send_blocks_until_it_is_read(ends: Ends) -> None:
    pipe, other = ends
    data = b"x" * (8 << 20)
    sender = threading.Thread(target=pipe.send_bytes, args=(data,))
    sender.start()
    got = 0
    while got < len(data):
        got += len(other.recv(1 << 20))
    sender.join(10)
    assert not sender.is_alive()


def test_abandoned_link_is_known_before_anything_is_read(ends: Ends) -> None:
    pipe, other = ends
    assert not pipe.is_abandoned()
    other.sendall(encode_frame(Shutdown()))
    assert not pipe.is_abandoned()
    assert pipe.recv() == Shutdown()
    other.close()
    assert pipe.is_abandoned()
