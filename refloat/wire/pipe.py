"""The blocking end of a link: what a child uses to speak with the gateway. Framing is in `frame.py`.

One thread owns a pipe. It never decides what a lost link means: EOF is a value of its own, garbage
raises, and the program that reads them leaves with its exit code.
"""

import select
import socket
from collections import deque
from enum import Enum
from typing import Any, Final, Generic, TypeVar

import msgspec

from refloat.wire.frame import FrameBuffer, FrameError, encode_frame

_RECEIVE_BYTES = 256 * 1024

MessageT = TypeVar("MessageT")


class EndOfLink(Enum):
    """The other end is gone. A type of its own, so that no message is taken for it."""

    EOF = "eof"


EOF: Final = EndOfLink.EOF


class LinkClosedError(Exception):
    """Nobody reads what was to be sent."""


class Pipe(Generic[MessageT]):
    """Whole messages over an inherited, connected stream socket."""

    def __init__(self, fd: int, receives: Any) -> None:
        """`receives` is the union of message types that are legal here (`ToWorker`, `ToPrep`)."""
        self._socket = socket.socket(fileno=fd)
        self._socket.setblocking(True)
        self._buffer = FrameBuffer()
        self._ready: deque[MessageT] = deque()
        self._at_eof = False
        self._garbage: FrameError | None = None
        self._decoder: msgspec.msgpack.Decoder[Any] = msgspec.msgpack.Decoder(receives)
        self._poll = select.poll()
        self._poll.register(fd, select.POLLIN)

    def recv(self, timeout_s: float | None = None) -> MessageT | EndOfLink | None:
        """The next message; `None` if none came in time (0: look, but do not wait).

        What was whole before the end of the link, or before garbage, comes first. Raises `FrameError`
        for what is not a legal message; the sender can no longer be trusted then.
        """
        while not self._ready:
            if self._garbage is not None:
                raise self._garbage
            if self._at_eof:
                return EOF
            if timeout_s is not None and not self._poll.poll(timeout_s * 1000):
                return None
            self._receive()
        return self._ready.popleft()

    def send(self, message: msgspec.Struct) -> None:
        """Send one message, whole; blocks while the other end does not read.

        Raises `LinkClosedError` if the other end is gone.
        """
        self.send_bytes(encode_frame(message))

    def send_bytes(self, data: bytes) -> None:
        """Send bytes as they are. Raises `LinkClosedError`."""
        try:
            self._socket.sendall(data)
        except OSError as error:
            raise LinkClosedError(str(error)) from error

    def is_abandoned(self) -> bool:
        """Whether the other end was gone before it said anything."""
        if not self._poll.poll(0):
            return False
        try:
            return not self._socket.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
        except ConnectionError:
            return True

    def close(self) -> None:
        """Close the link; the other end sees EOF."""
        self._at_eof = True
        self._socket.close()

    def _receive(self) -> None:
        try:
            data = self._socket.recv(_RECEIVE_BYTES)
        except ConnectionError:
            data = b""
        if not data:
            self._at_eof = True
            return
        self._buffer.feed(data)
        try:
            for payload in self._buffer.payloads():
                self._ready.append(self._decoder.decode(payload))
        except FrameError as error:
            self._garbage = error
        except msgspec.MsgspecError as error:
            self._garbage = FrameError(f"not a legal message: {error}")
