"""Answers for HTTP/1.0 (old proxies, `ab`, nginx as a proxy by default): a body of unknown length ends
with the connection, since chunks are HTTP/1.1's."""

import sys

from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle


class Unchunked:
    """The application for one such request. uvicorn ends its connection with the answer anyhow."""

    def __init__(self, app: ASGIApp, cycle: RequestResponseCycle) -> None:
        self._app = app
        self._cycle = cycle

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        cycle = self._cycle
        is_open_ended = False

        async def send_plain(message: Message) -> None:
            nonlocal is_open_ended
            if message["type"] == "http.response.start":
                names = {name.lower() for name, _ in message.get("headers", ())}
                if b"content-length" not in names:
                    is_open_ended = True
                    cycle.chunked_encoding = False
                    cycle.expected_content_length = sys.maxsize
            elif is_open_ended and not message.get("more_body", False):
                cycle.expected_content_length = len(message.get("body", b""))
            await send(message)

        try:
            await self._app(scope, receive, send_plain)
        except BaseException:
            if is_open_ended and not cycle.response_complete:
                cycle.transport.abort()  # a plain end would make a broken answer look whole
            raise
