"""Clients that ask again as soon as they are answered: one thread, one selector, whole answers."""

import json
import re
import selectors
import socket
import threading
from collections.abc import Iterator
from types import TracebackType
from typing import Any, NamedTuple, Self
from urllib.parse import urlsplit

from refloat.bench.load import LoadError

_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)\r\n", re.IGNORECASE)
_LOOK_S = 0.1
_LEAVE_S = 30.0


class Question(NamedTuple):
    """One request that is not streamed."""

    path: str
    body: dict[str, Any]


class _Caller:
    """One connection."""

    __slots__ = ("connection", "received")

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.received = bytearray()


class Crowd:
    """So many clients for as long as the context lasts; then they leave without waiting."""

    def __init__(
        self, url: str, questions: Iterator[Question], clients: int, *, api_key: str | None = None
    ) -> None:
        parts = urlsplit(url)
        self._address = (parts.hostname or "127.0.0.1", parts.port or 80)
        self._key = f"Authorization: Bearer {api_key}\r\n" if api_key else ""
        self._questions = questions
        self._clients = clients
        self._is_leaving = threading.Event()
        self._error: Exception | None = None
        self.answers = 0
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._is_leaving.set()
        self._thread.join(_LEAVE_S)
        if kind is None:
            self.check()

    def check(self) -> None:
        """Raises what went wrong: `LoadError` for an answer other than 200."""
        if self._error is not None:
            raise self._error

    def _run(self) -> None:
        try:
            self._ask_and_read()
        except (OSError, LoadError) as error:
            self._error = error

    def _ask_and_read(self) -> None:
        callers: list[_Caller] = []
        with selectors.DefaultSelector() as selector:
            try:
                for _ in range(self._clients):
                    caller = _Caller(socket.create_connection(self._address, timeout=30))
                    callers.append(caller)
                    selector.register(caller.connection, selectors.EVENT_READ, caller)
                    self._ask(caller)
                while not self._is_leaving.is_set():
                    for key, _ in selector.select(_LOOK_S):
                        self._read(key.data)
            finally:
                for caller in callers:
                    caller.connection.close()

    def _ask(self, caller: _Caller) -> None:
        path, body = next(self._questions)
        payload = json.dumps(body).encode()
        head = (
            f"POST {path} HTTP/1.1\r\nHost: bench\r\nContent-Type: application/json\r\n{self._key}"
            f"Content-Length: {len(payload)}\r\n\r\n"
        )
        caller.connection.sendall(head.encode() + payload)

    def _read(self, caller: _Caller) -> None:
        data = caller.connection.recv(1 << 16)
        caller.received += data
        head_end = caller.received.find(b"\r\n\r\n")
        if data and head_end < 0:
            return
        head = bytes(caller.received[: head_end + 2])
        length = _LENGTH.search(head)
        if not data or length is None or not head.startswith(b"HTTP/1.1 200"):
            raise LoadError(f"no whole answer: {bytes(caller.received[:300])!r}")
        if len(caller.received) < head_end + 4 + int(length[1]):
            return
        caller.received.clear()
        self.answers += 1
        self._ask(caller)
