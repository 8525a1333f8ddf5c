"""How a reader of events learns that there are some. One reader; on the event loop only."""

import asyncio
from collections.abc import Callable


class Doorbell:
    """Wakes its reader's task, unless the reader has said that it can be called instead: for a stream
    whose client takes what it is sent, a call for each step in place of a task's turn and all that it
    goes through is half of what a token costs."""

    def __init__(self) -> None:
        self._waiter: asyncio.Future[None] | None = None
        self._take: Callable[[], bool] | None = None
        self._is_called = False

    @property
    def is_awaited(self) -> bool:
        """Whether the reader waits."""
        return self._waiter is not None

    def answer_by(self, take: Callable[[], bool]) -> None:
        """From now on call `take` first, soon after a ring, and only if the reader waits. The reader
        is woken if it returns false (it could not take what there is), or by what it raises."""
        self._take = take

    async def wait(self) -> None:
        """Until there is something that no call has taken. Cancelling the wait loses nothing."""
        self._waiter = asyncio.get_running_loop().create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def ring(self) -> bool:
        """There is something new. Whether the reader waits for it."""
        waiter = self._waiter
        if waiter is None or waiter.done():
            return False
        if self._take is None:
            waiter.set_result(None)
        elif not self._is_called:
            self._is_called = True
            asyncio.get_running_loop().call_soon(self._call, self._take)
        return True

    def _call(self, take: Callable[[], bool]) -> None:
        self._is_called = False
        waiter = self._waiter
        if waiter is None or waiter.done():
            return
        try:
            if not take():
                waiter.set_result(None)
        except Exception as error:  # noqa: BLE001 - the reader's own, raised where it waits
            waiter.set_exception(error)
