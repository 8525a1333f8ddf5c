"""What is known of one HTTP request while it lives: written on its way through the layers, read once
at its end for the log line and the metrics."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from starlette.types import Receive, Scope, Send

from refloat.api.errors import Answer
from refloat.api.grant import PLAIN, Grant

_KEY = "refloat.facts"
#: Where the protocol leaves the connection's `abort`.
ABORT = "refloat.abort"
#: And where it leaves the answer's `DirectBody`.
DIRECT = "refloat.direct"


def _nothing() -> None:
    """For a connection that is none of ours."""


class DirectBody(Protocol):
    """A part of an answer's body may be written at once, without waiting for anything."""

    @property
    def is_open(self) -> bool:
        """Whether `write` may be called now: the answer has begun, the connection stands, and it has
        room. If not, `send` knows what to do."""
        ...

    def write(self, body: bytes) -> None:
        """Some of the body, but not its end."""
        ...


@dataclass(slots=True)
class RequestFacts:
    """One request's identity and fate."""

    request_id: str
    tenant: str = ""
    grant: Grant = PLAIN
    route: str = "unmatched"
    """The route's template: a closed set, fit for a metric's label."""
    status: int | None = None
    """Set when the status line is sent; 499 for a client that left before."""
    model: str | None = None
    aborted: bool = False
    """The client left before the end."""


@dataclass(frozen=True, slots=True)
class Call:
    """One request on its way to its handler."""

    scope: Scope
    receive: Receive
    send: Send
    facts: RequestFacts

    @property
    def abort(self) -> Callable[[], None]:
        """Ends the connection at once, unsent bytes and all."""
        return self.scope.get(ABORT, _nothing)

    @property
    def direct(self) -> DirectBody | None:
        """`None` where the connection is none of ours."""
        return self.scope.get(DIRECT)

    def header(self, name: bytes) -> bytes | None:
        """The first header of that (lower-case) name."""
        return header_of(self.scope, name)


def attach(scope: Scope, facts: RequestFacts) -> None:
    """Make `facts` travel with the request."""
    scope[_KEY] = facts


def facts_of(scope: Scope) -> RequestFacts:
    """The facts that the outermost layer attached."""
    facts = scope[_KEY]
    assert isinstance(facts, RequestFacts)
    return facts


def header_of(scope: Scope, name: bytes) -> bytes | None:
    """The first header of that (lower-case) name."""
    headers: list[tuple[bytes, bytes]] = scope["headers"]
    for key, value in headers:
        if key == name:
            return value
    return None


async def send_answer(send: Send, answer: Answer, *, complete: bool = True) -> None:
    """Send a whole answer. With `complete=False` the last word is left to the caller."""
    length = (b"content-length", str(len(answer.body)).encode())
    await send(
        {
            "type": "http.response.start",
            "status": answer.status,
            "headers": [*answer.headers, length],
        }
    )
    await send({"type": "http.response.body", "body": answer.body, "more_body": not complete})
