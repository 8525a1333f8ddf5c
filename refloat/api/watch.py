"""Notices a client that leaves, and unwinds the work that was for it alone."""

import asyncio
from collections.abc import Callable
from types import TracebackType
from typing import Self

from starlette.types import Receive

from refloat.api.errors import ClientGoneError


class ClientWatch:
    """An async context: its body is cancelled when the client leaves, and `ClientGoneError` comes out.

    For use once the request's body has been read: it takes over `receive`.
    """

    def __init__(self, receive: Receive, abort: Callable[[], None] = lambda: None) -> None:
        """`abort` ends the connection at once, whatever is still to be sent."""
        self._receive = receive
        self._abort = abort
        self._owner: asyncio.Task[object] | None = None
        self._watcher: asyncio.Task[None] | None = None
        self._gone = False

    def abandon(self) -> None:
        """Treat the client as gone (it takes nothing any more)."""
        if not self._gone and self._owner is not None:
            self._gone = True
            self._owner.cancel()
            self._abort()

    def finish(self) -> None:
        """The answer is out, whole: what the client does from now on changes nothing.

        To be called right after the last send, before anything else is awaited: a server reports a
        finished answer as a disconnect, too.
        """
        if not self._gone:
            self._owner = None

    async def __aenter__(self) -> Self:
        self._owner = asyncio.current_task()
        self._watcher = asyncio.create_task(self._watch())
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        watcher = self._watcher
        assert watcher is not None
        watcher.cancel()
        cancelled = kind is not None and issubclass(kind, asyncio.CancelledError)
        try:
            await asyncio.wait({watcher})  # where a cancel that crossed our end is delivered, too
        except asyncio.CancelledError:
            if not self._gone:
                raise
            cancelled = True
        owner, self._owner = self._owner, None
        if not watcher.cancelled() and (failure := watcher.exception()) is not None:
            raise failure
        # What other cancel there may be (the server's own) is not ours to swallow.
        if (
            self._gone
            and owner is not None
            and owner.uncancel() == 0
            and (cancelled or kind is None)
        ):
            raise ClientGoneError from error

    async def _watch(self) -> None:
        while True:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                self.abandon()
                return
