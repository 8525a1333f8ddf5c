"""uvicorn, embedded: our sockets, our signals, our protocol, our log."""

import socket
import time
from collections.abc import Generator
from contextlib import contextmanager

import uvicorn
from starlette.types import ASGIApp

from refloat.api.connection_limit import most_connections
from refloat.api.protocol import protocol_class
from refloat.api.slow_readers import SlowReaders
from refloat.observe.log import get_logger
from refloat.observe.metrics import Metrics

_log = get_logger(__name__)

#: Idle connections are kept a little longer than common proxies keep theirs.
KEEP_ALIVE_S = 75
#: The label of answers given below ASGI.
PROTOCOL_ROUTE = "protocol"


class HttpServer(uvicorn.Server):
    """Serves until `should_exit` is set; the application installs the signal handlers."""

    def __init__(self, config: uvicorn.Config, slow_readers: SlowReaders) -> None:
        super().__init__(config)
        self._slow_readers = slow_readers

    async def on_tick(self, counter: int) -> bool:
        """Ten times a second; once a second every connection is looked at."""
        if counter % 10 == 0:
            transports = [connection.transport for connection in self.server_state.connections]
            cut = self._slow_readers.look(transports, time.monotonic())
            if cut:
                _log.info("slow_readers_cut", connections=cut)
        return await super().on_tick(counter)

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        """None are captured."""
        yield


def build_server(
    app: ASGIApp,
    metrics: Metrics,
    *,
    shutdown_grace_s: int = 5,
    slow_reader_timeout_s: float = 60.0,
) -> HttpServer:
    """A server for `serve(sockets=[...])`, which takes sockets that are bound already.

    `shutdown_grace_s` bounds how long open answers are waited for once `should_exit` is set; draining
    comes before that and is the application's own affair.
    """

    def counted(status: int) -> None:
        metrics.requests.labels(PROTOCOL_ROUTE, str(status)).inc()

    config = uvicorn.Config(
        app,
        loop="uvloop",
        http=protocol_class(counted, most_connections()),
        ws="none",
        lifespan="off",
        interface="asgi3",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        date_header=True,
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=shutdown_grace_s,
    )
    return HttpServer(config, SlowReaders(slow_reader_timeout_s))


def bind(host: str, port: int) -> socket.socket:
    """A listening address, taken before anything is started. Raises `OSError` (a port in use)."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    sock = socket.socket(family)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((host, port))
        sock.setblocking(False)
    except BaseException:
        sock.close()
        raise
    return sock
