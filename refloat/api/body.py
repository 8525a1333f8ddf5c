"""Reading request bodies: bounded before and while they are read, paid for from the byte budget."""

import asyncio
from types import TracebackType
from typing import Self

from starlette.types import Receive

from refloat.api.body_cost import decoded_bytes
from refloat.api.context import BudgetPort, LeasePort
from refloat.api.errors import ClientGoneError, invalid
from refloat.api.facts import Call
from refloat.wire.problem import ProblemError, ProblemKind

BODY_DEADLINE_S = 60.0
_STEP_BYTES = 256 * 1024
#: A refused body is read and dropped for so long, so that the client sees the answer and no reset.
_DRAIN_DEADLINE_S = 5.0


class Body:
    """A body in memory and the bytes leased for it. A context manager: leaving it gives them back."""

    def __init__(self, data: bytes, leases: list[LeasePort], budget: BudgetPort) -> None:
        self.data = data
        self.size = len(data)
        self._leases = leases
        self._budget = budget

    def take(self) -> bytes:
        """The bytes, once, to be decoded. What they are decoded into is leased for until the end.

        Raises `ProblemError`: 503 where there is no room for that now.
        """
        self._leases.append(self._budget.reserve(decoded_bytes(self.data)))
        data, self.data = self.data, b""
        return data

    def hold(self, size_bytes: int) -> None:
        """Lease for more that goes with this body, until the end. Raises as `take`."""
        self._leases.append(self._budget.reserve(size_bytes))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.data = b""
        for lease in self._leases:
            lease.close()
        self._leases.clear()


async def read_json_body(
    call: Call, *, limit: int, budget: BudgetPort, deadline_s: float = BODY_DEADLINE_S
) -> Body:
    """The whole body of a request that has to carry JSON.

    Raises `ProblemError`: 413 beyond `limit` (with Content-Length: before anything is read), 415 for
    another content type, 400 for one that takes too long, 503 when the budget is used up; and
    `ClientGoneError`.
    """
    _check_type(call)
    declared = _content_length(call)
    if declared is not None and declared > limit:
        raise _too_large(limit)
    leases: list[LeasePort] = []
    try:
        if declared:
            # What has not come is not held: else a few callers who only promise would shut out all.
            budget.reserve(declared).close()
        async with asyncio.timeout(deadline_s):
            data = await _read(call.receive, min(limit, declared or limit), limit, budget, leases)
    except BaseException as error:
        for lease in leases:
            lease.close()
        if isinstance(error, TimeoutError):
            message = f"The request body did not arrive within {deadline_s:g} s."
            raise invalid(message, None) from error
        raise
    return Body(data, leases, budget)


async def drain_refused_body(call: Call) -> None:
    """Read and drop what a client still sends, for a while: closing at once would reset the connection
    and take the answer with it."""
    if call.header(b"expect") is not None and call.header(b"content-length") is not None:
        return  # refused by its length: it waits for our word before it sends anything
    try:
        async with asyncio.timeout(_DRAIN_DEADLINE_S):
            while True:
                message = await call.receive()
                if message["type"] != "http.request" or not message.get("more_body", False):
                    return
    except TimeoutError:
        return


async def _read(
    receive: Receive, expected: int, limit: int, budget: BudgetPort, leases: list[LeasePort]
) -> bytes:
    data = bytearray()
    leased = 0
    while True:
        message = await receive()
        if message["type"] != "http.request":
            raise ClientGoneError
        piece: bytes = message.get("body", b"")
        if len(data) + len(piece) > limit:
            raise _too_large(limit)
        if len(data) + len(piece) > leased:
            step = max(min(_STEP_BYTES, expected - leased), len(piece))
            leases.append(budget.reserve(step))
            leased += step
        data += piece
        if not message.get("more_body", False):
            return bytes(data)


def _too_large(limit: int) -> ProblemError:
    message = f"The request body is larger than this server takes ({limit} bytes)."
    return ProblemError.of(ProblemKind.REQUEST_TOO_LARGE, message)


def _content_length(call: Call) -> int | None:
    value = call.header(b"content-length")
    if value is None:
        return None
    if not value.isdigit() or len(value) > 19:
        raise invalid("The Content-Length header is not a number.", None)
    return int(value)


def _check_type(call: Call) -> None:
    encoding = call.header(b"content-encoding")
    if encoding is not None and encoding.strip().lower() not in (b"", b"identity"):
        message = "Compressed request bodies are not taken; send it without Content-Encoding."
        raise ProblemError.of(ProblemKind.UNSUPPORTED_MEDIA_TYPE, message)
    given = call.header(b"content-type")
    if given is None:
        return
    media_type = given.split(b";", 1)[0].strip().lower()
    if media_type == b"application/json" or (
        media_type.startswith(b"application/") and media_type.endswith(b"+json")
    ):
        return
    message = "The request body has to be JSON (Content-Type: application/json)."
    raise ProblemError.of(ProblemKind.UNSUPPORTED_MEDIA_TYPE, message)
