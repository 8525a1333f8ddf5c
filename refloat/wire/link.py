"""The gateway's end of the socketpair that joins it to a child: frames in, frames out, never blocking.

It reports what the bytes said and nothing of what it means: whether an ended link is a death, and
what is then done, is the supervisor's business. The blocking end is in `pipe.py`.
"""

import asyncio
import fcntl
import socket
import termios
from array import array
from collections import deque
from collections.abc import Callable
from enum import StrEnum
from typing import Any, Generic, TypeVar

import msgspec

from refloat.wire.frame import MAX_FRAME_BYTES, FrameBuffer, FrameError, encode_frame

#: At a time, between which everybody else gets a turn: a full socket holds thousands of tokens, and
#: each costs the gateway much more to pass on than to receive.
_RECEIVE_BYTES = 32 * 1024
#: A child may step for minutes without reading; more than this unread is a child that never will.
DEFAULT_PENDING_BYTES = 2 * MAX_FRAME_BYTES

_In = TypeVar("_In")


class LinkEnd(StrEnum):
    """Why a link ended; each is final."""

    EOF = "eof"
    """The other end was closed, between two frames."""
    TORN = "torn"
    """The other end was closed in the middle of a frame."""
    GARBAGE = "garbage"
    """Bytes that are no frame, or a frame that is no message for this end."""
    OVERFLOW = "overflow"
    """The other end does not read: more is waiting than may be held."""


class Link(Generic[_In]):
    """One end of a socketpair, on the running event loop.

    `on_message` gets each decoded message, `on_end` is called once, always from the loop and never
    from inside `send`. The socket stays open until `close`, which calls nothing.
    """

    def __init__(
        self,
        sock: socket.socket,
        incoming: Any,
        *,
        on_message: Callable[[_In], None],
        on_end: Callable[[LinkEnd, str], None],
        max_pending_bytes: int = DEFAULT_PENDING_BYTES,
    ) -> None:
        sock.setblocking(False)
        self._sock = sock
        self._loop = asyncio.get_running_loop()
        self._decode: Callable[[bytes], _In] = msgspec.msgpack.Decoder(incoming).decode
        self._on_message = on_message
        self._on_end = on_end
        self._max_pending_bytes = max_pending_bytes
        self._received = FrameBuffer()
        self._pending: deque[memoryview] = deque()
        self._pending_bytes = 0
        self._is_deaf = False
        self._ended = False
        self._closed = False
        self._loop.add_reader(sock, self._readable)

    def send(self, message: msgspec.Struct) -> None:
        """Send, or keep until the other end reads. A link that ended ignores it.

        Raises `FrameError` for a message too long to be accepted.
        """
        frame = encode_frame(message)
        if self._ended or self._is_deaf:
            return
        if self._pending:
            self._keep(memoryview(frame))
            return
        sent = self._try_send(frame)
        if sent < len(frame) and not self._is_deaf:
            self._keep(memoryview(frame)[sent:])
            self._loop.add_writer(self._sock, self._writable)

    def finish(self) -> None:
        """Say that nothing more will be sent: the other end reads EOF. What is kept is dropped."""
        if self._is_deaf or self._closed:
            return
        self._deafen()
        try:
            self._sock.shutdown(socket.SHUT_WR)
        except OSError:
            return  # the other end is gone already, and the reader says so

    def drain(self) -> None:
        """Deliver at once whatever has arrived, for last words of a child that is known dead."""
        while not self._ended and self._readable():
            pass

    def close(self) -> None:
        """Release the socket. Idempotent; no callback follows."""
        if self._closed:
            return
        self._detach()
        self._closed = True
        self._sock.close()

    @property
    def pending_bytes(self) -> int:
        """Bytes kept because the other end has not read them."""
        return self._pending_bytes

    def has_unread(self) -> bool:
        """Whether something has arrived that was not read yet."""
        if self._closed:
            return False
        count = array("i", [0])
        try:
            fcntl.ioctl(self._sock, termios.FIONREAD, count)
        except OSError:
            return False
        return count[0] > 0

    def _readable(self) -> bool:
        """Receive once; whether there was anything."""
        try:
            data = self._sock.recv(_RECEIVE_BYTES)
        except BlockingIOError:
            return False
        except OSError as error:
            self._end(LinkEnd.TORN, f"reading failed: {error.strerror}")
            return False
        if not data:
            if self._received.is_empty:
                self._end(LinkEnd.EOF, "closed")
            else:
                self._end(LinkEnd.TORN, "closed in the middle of a frame")
            return False
        self._received.feed(data)
        self._deliver()
        return True

    def _deliver(self) -> None:
        payloads = self._received.payloads()
        while not self._ended:
            try:
                payload = next(payloads, None)
                if payload is None:
                    return
                message = self._decode(payload)
            # a hostile frame can also nest too deep or announce more items than memory holds
            except (FrameError, msgspec.MsgspecError, RecursionError, MemoryError) as error:
                self._end(LinkEnd.GARBAGE, str(error) or type(error).__name__)
                return
            self._on_message(message)

    def _try_send(self, data: bytes | memoryview) -> int:
        try:
            return self._sock.send(data)
        except BlockingIOError:
            return 0
        except OSError:
            # Whatever the other end said before it left is still to be read, so the end is
            # reported by the reader, or failing that (it only stopped reading) right after it.
            self._deafen()
            self._loop.call_soon(self._end_unread)
            return 0

    def _end_unread(self) -> None:
        self.drain()
        self._end(LinkEnd.EOF, "the other end no longer reads")

    def _keep(self, data: memoryview) -> None:
        self._pending.append(data)
        self._pending_bytes += len(data)
        if self._pending_bytes > self._max_pending_bytes:
            detail = f"{self._pending_bytes} bytes wait to be read"
            self._deafen()
            self._loop.call_soon(self._end, LinkEnd.OVERFLOW, detail)

    def _writable(self) -> None:
        while self._pending:
            data = self._pending[0]
            sent = self._try_send(data)
            if self._is_deaf:
                return
            self._pending_bytes -= sent
            if sent < len(data):
                self._pending[0] = data[sent:]
                return
            self._pending.popleft()
        self._loop.remove_writer(self._sock)

    def _deafen(self) -> None:
        self._is_deaf = True
        self._pending.clear()
        self._pending_bytes = 0
        self._loop.remove_writer(self._sock)

    def _end(self, end: LinkEnd, detail: str) -> None:
        if self._ended:
            return
        self._detach()
        self._on_end(end, detail)

    def _detach(self) -> None:
        self._ended = True
        if not self._closed:
            self._loop.remove_reader(self._sock)
            self._deafen()
