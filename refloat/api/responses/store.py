"""Stored answers as the event loop sees them: what is put is found at once, the disk follows."""

import asyncio
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from refloat.api.errors import invalid
from refloat.api.responses.database import ChainTooLongError, ResponseDatabase, StoredResponse
from refloat.config.home import responses_file
from refloat.config.schema import ServerConfig
from refloat.observe.aside import aside
from refloat.observe.log import get_logger
from refloat.wire.problem import ProblemError, ProblemKind

_log = get_logger(__name__)
T = TypeVar("T")

DEADLINE_S = 10.0
#: Beyond these the disk is too slow for what is asked of it.
_MAX_CALLS = 64
_MAX_UNWRITTEN_BYTES = 64 << 20


class ResponseStore:
    """Used on the event loop only. Methods that read raise `ProblemError` where the disk fails."""

    def __init__(
        self, path: Path, *, max_bytes: int, retention_s: float, most_bytes: int = 32 << 20
    ) -> None:
        """`most_bytes`: of one conversation that is taken up again."""
        self._database = ResponseDatabase(path, max_bytes=max_bytes, retention_s=retention_s)
        self._most_bytes = most_bytes
        self._unwritten: dict[str, StoredResponse] = {}
        self._writers: set[asyncio.Task[None]] = set()
        self._calls = 0

    def put(self, stored: StoredResponse) -> None:
        """Keep an answer. One that cannot be written is logged and forgotten."""
        waiting = self._unwritten.values()
        waiting_bytes = sum(len(one.items) + len(one.answer) for one in waiting)
        if len(waiting) >= _MAX_CALLS or waiting_bytes >= _MAX_UNWRITTEN_BYTES:
            _log.error("response not stored", response=stored.id, reason="the disk is too slow")
            return
        self._unwritten[stored.id] = stored
        writer = asyncio.get_running_loop().create_task(self._write(stored))
        self._writers.add(writer)
        writer.add_done_callback(self._writers.discard)

    async def get(self, tenant: str, response_id: str) -> StoredResponse | None:
        """The tenant's answer of that id; `None`: there is none, or not for this tenant to know."""
        held = self._unwritten.get(response_id)
        if held is not None and held.tenant == tenant:
            return held
        return await self._ask(lambda: self._database.get(tenant, response_id))

    async def chain(self, tenant: str, response_id: str) -> list[StoredResponse]:
        """The conversation that ends with this answer, from its beginning. Raises `ProblemError`."""
        await self._written()
        try:
            found = await self._ask(
                lambda: self._database.chain(tenant, response_id, self._most_bytes)
            )
        except ChainTooLongError:
            message = f"This conversation has more than {self._most_bytes} bytes."
            raise invalid(message, "previous_response_id") from None
        if found is None:
            message = (
                f"There is no response {response_id[:80]!r}, or something of its conversation is "
                "not kept any more; send the whole conversation as input."
            )
            raise ProblemError.of(ProblemKind.NOT_FOUND, message, param="previous_response_id")
        return found

    async def delete(self, tenant: str, response_id: str) -> bool:
        """Forget it, for good once this returns. Whether it was there."""
        await self._written()
        return await self._ask(lambda: self._database.delete(tenant, response_id))

    async def _written(self) -> None:
        if self._writers:
            await asyncio.wait(self._writers, timeout=DEADLINE_S)

    async def _write(self, stored: StoredResponse) -> None:
        try:
            await aside(lambda: self._database.put(stored), DEADLINE_S)
        except (sqlite3.Error, OSError, TimeoutError) as error:
            _log.error("response not stored", response=stored.id, reason=str(error))
        finally:
            if self._unwritten.get(stored.id) is stored:
                del self._unwritten[stored.id]

    async def _ask(self, work: Callable[[], T]) -> T:
        if self._calls >= _MAX_CALLS:
            raise _unavailable()
        self._calls += 1
        try:
            return await aside(work, DEADLINE_S)
        except (sqlite3.Error, OSError, TimeoutError) as error:
            _log.error("stored responses cannot be read", reason=str(error))
            raise _unavailable() from error
        finally:
            self._calls -= 1


def _unavailable() -> ProblemError:
    message = "Stored responses cannot be read at the moment."
    return ProblemError.of(ProblemKind.OVERLOADED, message)


def response_store_for(server: ServerConfig) -> ResponseStore | None:
    """As the settings say."""
    if not server.responses_bytes:
        return None
    return ResponseStore(
        responses_file(),
        max_bytes=server.responses_bytes,
        retention_s=server.responses_retention_s,
        most_bytes=server.max_body_bytes,
    )
