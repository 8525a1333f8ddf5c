"""Blocking work beside the event loop, in a thread that nobody ever waits for at the end.

Like `asyncio.to_thread`, but on a daemon thread of its own: a read of `/sys` or a dead disk that never
returns must hold up neither other work nor the process's exit, as a pool's thread would.
"""

import asyncio
import contextlib
import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


async def aside(work: Callable[[], T], deadline_s: float) -> T:
    """The result of `work`. Raises what it raises, or `TimeoutError`; it is left running then."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()

    def run() -> None:
        try:
            result = work()
        except BaseException as error:  # noqa: BLE001  (handed to whoever waits)
            _hand_over(lambda error=error: future.set_exception(error))
        else:
            _hand_over(lambda: future.set_result(result))

    def _hand_over(give: Callable[[], None]) -> None:
        def unless_left() -> None:
            if not future.done():
                give()

        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(unless_left)

    threading.Thread(target=run, name="refloat-aside", daemon=True).start()
    async with asyncio.timeout(deadline_s):
        return await future
