"""uvicorn, embedded: our sockets, our signals, our protocol, our log."""

import socket
from collections.abc import Generator
from contextlib import contextmanager

import uvicorn
from starlette.types import ASGIApp

from refloat.api.protocol import protocol_class
from refloat.observe.metrics import Metrics

#: Idle connections are kept a little longer than common proxies keep theirs.
KEEP_ALIVE_S = 75
#: The label of answers given below ASGI.
PROTOCOL_ROUTE = "protocol"


class HttpServer(uvicorn.Server):
    """Serves until `should_exit` is set; the application installs the signal handlers."""

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        """None are captured."""
        yield


def build_server(app: ASGIApp, metrics: Metrics, *, shutdown_grace_s: int = 5) -> HttpServer:
    """A server for `serve(sockets=[...])`, which takes sockets that are bound already.

    `shutdown_grace_s` bounds how long open answers are waited for once `should_exit` is set; draining
    comes before that and is the application's own affair.
    """

    def counted(status: int) -> None:
        metrics.requests.labels(PROTOCOL_ROUTE, str(status)).inc()

    config = uvicorn.Config(
        app,
        loop="uvloop",
        http=protocol_class(counted),
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
    return HttpServer(config)


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
