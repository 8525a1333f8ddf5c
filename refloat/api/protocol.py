"""uvicorn's httptools protocol, with what it lacks below ASGI: limits on headers, a deadline for them,
and the same JSON errors as above, counted."""

import asyncio
from collections.abc import Callable
from typing import Any, cast

import httptools
from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import (
    STATUS_LINE,
    HttpToolsProtocol,
    RequestResponseCycle,
)
from uvicorn.server import ServerState

from refloat.api.error_shapes import error_shape_of
from refloat.api.errors import error_answer
from refloat.api.facts import ABORT, DIRECT
from refloat.api.unchunked import Unchunked
from refloat.wire.problem import Problem, ProblemKind

#: Request line and headers together; also the longest stretch of bytes that brings nothing forward.
MAX_HEAD_BYTES = 64 * 1024
#: From a request's first byte (or the connection's begin) to the end of its headers.
HEAD_DEADLINE_S = 30.0
#: Requests behind one that is being answered, beyond which nothing more is read: also not that the
#: client has left.
MAX_PIPELINED = 4
#: Body bytes that are read and dropped once an answer was complete without them.
MAX_UNWANTED_BYTES = 64 * 1024 * 1024

_TOO_LARGE = Problem(
    ProblemKind.HEADERS_TOO_LARGE,
    f"The request line and headers are larger than this server takes ({MAX_HEAD_BYTES} bytes).",
)
_TOO_MANY = Problem(
    ProblemKind.OVERLOADED, "This server has as many connections as it can hold. Try again shortly."
)
_BROKEN = Problem(ProblemKind.INVALID_REQUEST, "This is not a valid HTTP/1.1 request.")
_TOO_SLOW = Problem(
    ProblemKind.INVALID_REQUEST,
    f"The request's headers did not arrive within {HEAD_DEADLINE_S:g} s.",
)


def _uncounted(status: int) -> None:
    """For a protocol that is used without `protocol_class`."""


class _OversizedHeadError(Exception):
    """Ends parsing from inside a parser callback."""


class ChunkWriter:
    """A `DirectBody`: what uvicorn's `send` does with a part of a chunked body, if it need not wait."""

    __slots__ = ("_cycle",)

    def __init__(self, cycle: RequestResponseCycle) -> None:
        self._cycle = cycle

    @property
    def is_open(self) -> bool:
        """As `DirectBody.is_open`."""
        cycle = self._cycle
        return (
            cycle.chunked_encoding is True  # which is known once the headers are out
            and not cycle.response_complete
            and not cycle.disconnected
            and not cycle.flow.write_paused
        )

    def write(self, body: bytes) -> None:
        """As `DirectBody.write`. An empty chunk would be the body's end."""
        if body:
            self._cycle.transport.write(b"%x\r\n%b\r\n" % (len(body), body))


class RefloatProtocol(HttpToolsProtocol):
    """One connection. `counted` is told the status of every answer that no ASGI application saw."""

    counted: Callable[[int], None] = staticmethod(_uncounted)
    max_connections = 65_536
    """Beyond which a new one is refused: what they take is not there for new children."""

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._head_bytes = 0
        self._stalled_bytes = 0
        """Fed to the parser since it last completed anything."""
        self._unwanted_bytes = 0
        self._oversized = False
        self._head_timer: asyncio.TimerHandle | None = None
        self._has_begun = False
        self._served: RequestResponseCycle | None = None
        """Of the requests on this connection the one that the application has."""

    # --- the connection ---------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.Transport) -> None:
        super().connection_made(transport)
        self._arm_head_timer()
        if len(self.connections) > self.max_connections:
            self._refuse(_TOO_MANY)

    def connection_lost(self, exc: Exception | None) -> None:
        self._disarm_head_timer()
        self._unset_keepalive_if_required()
        if self._served is not None and not self._served.response_complete:
            self._served.disconnected = True  # uvicorn tells the newest alone
            self._served.message_event.set()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """What begins no request leaves the keep-alive clock alone, or a byte now and then would hold
        a connection for ever."""
        parser = cast("httptools.HttpRequestParser | None", self.parser)  # None once it is lost
        if parser is None or self.transport.is_closing():
            return
        self._stalled_bytes += len(data)
        try:
            parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            self._decline_upgrade(parser, data[upgrade.args[0] :])
            return
        except httptools.HttpParserError:
            self._refuse(_TOO_LARGE if self._oversized else _BROKEN)
            return
        if self._stalled_bytes > MAX_HEAD_BYTES:
            self._refuse(_BROKEN if self._is_in_body else _TOO_LARGE)

    # --- the parser -------------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        self._unset_keepalive_if_required()
        super().on_message_begin()
        scope = cast("dict[str, Any]", self.scope)
        scope[ABORT] = self.transport.abort
        self._has_begun = True
        self._head_bytes = self._unwanted_bytes = 0
        if self._head_timer is None:
            self._arm_head_timer()

    def on_url(self, url: bytes) -> None:
        self._count_head(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._count_head(len(name) + len(value) + 4)
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        if self.parser.should_upgrade():
            return  # comes again, without the offer
        self._disarm_head_timer()
        self._unset_keepalive_if_required()
        self._stalled_bytes = 0
        super().on_headers_complete()
        if 0 < len(self.pipeline) <= MAX_PIPELINED:
            self.flow.resume_reading()
        cast("dict[str, Any]", self.scope)[DIRECT] = ChunkWriter(self.cycle)

    def on_body(self, body: bytes) -> None:
        self._stalled_bytes = 0
        if self.cycle.response_complete:
            self._unwanted_bytes += len(body)
            if self._unwanted_bytes > MAX_UNWANTED_BYTES:
                self.transport.close()
        super().on_body(body)

    def on_message_complete(self) -> None:
        if self.parser.should_upgrade():
            return
        self._stalled_bytes = 0
        self._has_begun = False
        super().on_message_complete()

    def _decline_upgrade(self, parser: httptools.HttpRequestParser, rest: bytes) -> None:
        """Take the request as if no upgrade had been offered (Java's client offers h2c with every
        one): the parser would skip its body, so another one gets the head again, without the offer."""
        if parser.get_method() == b"CONNECT":
            self._refuse(_BROKEN)
            return
        version = parser.get_http_version().encode()
        lines = [
            name + b": " + value
            for name, value in self.headers
            if name not in (b"upgrade", b"connection", b"http2-settings")
        ]
        start = parser.get_method() + b" " + self.url + b" HTTP/" + version
        self.parser = httptools.HttpRequestParser(self)
        self.data_received(b"\r\n".join([start, *lines, b"", b""]) + rest)

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        self._served = cycle
        if cycle.scope["http_version"] == "1.0":
            app = Unchunked(app, cycle)
        super()._start_asgi_task(cycle, app)

    # --- refusing ---------------------------------------------------------------------------------

    @property
    def _is_in_body(self) -> bool:
        return self._has_begun and self._head_timer is None

    def _count_head(self, count: int) -> None:
        self._stalled_bytes = 0
        self._head_bytes += count
        if self._head_bytes > MAX_HEAD_BYTES:
            self._oversized = True
            raise _OversizedHeadError

    def _refuse(self, problem: Problem) -> None:
        """Answer below ASGI and close; a request that is being served is told that its client left."""
        self._disarm_head_timer()
        if self.transport.is_closing():
            return
        cycle = cast("RequestResponseCycle | None", self.cycle)
        can_answer = True
        if cycle is not None and not cycle.response_complete:
            # Beside its own body's faults: an earlier request's answer is due on this connection.
            can_answer = self._is_in_body and not (cycle.response_started or self.pipeline)
            cycle.disconnected = True
            cycle.message_event.set()
        if can_answer:
            self.transport.write(self._raw_answer(problem))
        self.transport.close()

    def _raw_answer(self, problem: Problem) -> bytes:
        path = self.url.partition(b"?")[0].decode("latin-1") if self._has_begun else ""
        answer = error_answer(problem, error_shape_of(path))
        self.counted(answer.status)
        headers = [pair for pair in answer.headers if pair[0] != b"connection"]
        headers += [
            *self.server_state.default_headers,
            (b"content-length", str(len(answer.body)).encode()),
            (b"connection", b"close"),
        ]
        lines = [name + b": " + value + b"\r\n" for name, value in headers]
        return b"".join([STATUS_LINE[answer.status], *lines, b"\r\n", answer.body])

    def _arm_head_timer(self) -> None:
        self._head_timer = self.loop.call_later(HEAD_DEADLINE_S, self._head_overdue)

    def _disarm_head_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _head_overdue(self) -> None:
        self._head_timer = None
        if self._has_begun:
            self._refuse(_TOO_SLOW)
        elif not self.transport.is_closing():
            self.transport.close()


def protocol_class(counted: Callable[[int], None], max_connections: int) -> type[RefloatProtocol]:
    """The protocol with its counter and its limit, in the form that uvicorn takes: a class."""
    named = {"counted": staticmethod(counted), "max_connections": max_connections}
    return type("CountedProtocol", (RefloatProtocol,), named)
