"""What a caller can be told: a closed set of kinds, and the value that carries one.

Any program may say *that* a request cannot go on (prep: the template refused it; a worker: the engine
refused it; the gateway: the queue is full). Only `api/errors.py` knows what that means in HTTP.
"""

from enum import StrEnum
from typing import Self

import msgspec


class ProblemKind(StrEnum):
    """Every way in which a request ends without its answer. `api/errors.py` has a row for each."""

    # The caller can change it.
    INVALID_REQUEST = "invalid_request"
    UNSUPPORTED_VALUE = "unsupported_value"
    CONTEXT_LENGTH_EXCEEDED = "context_length_exceeded"
    INVALID_API_KEY = "invalid_api_key"
    FORBIDDEN = "forbidden"
    NOT_FOUND = "not_found"
    MODEL_NOT_FOUND = "model_not_found"
    METHOD_NOT_ALLOWED = "method_not_allowed"
    CONFLICT = "conflict"
    IDEMPOTENCY_MISMATCH = "idempotency_mismatch"
    REQUEST_TOO_LARGE = "request_too_large"
    HEADERS_TOO_LARGE = "headers_too_large"
    UNSUPPORTED_MEDIA_TYPE = "unsupported_media_type"
    QUEUE_FULL = "queue_full"
    # The server's own.
    ENGINE_ERROR = "engine_error"
    INTERNAL_ERROR = "internal_error"
    POISON_REQUEST = "poison_request"
    MODEL_LOADING = "model_loading"
    MODEL_RECOVERING = "model_recovering"
    MODEL_FAILED = "model_failed"
    CHAT_TEMPLATE_UNAVAILABLE = "chat_template_unavailable"
    INSUFFICIENT_MEMORY = "insufficient_memory"
    OVERLOADED = "overloaded"
    DRAINING = "draining"
    DEADLINE_EXCEEDED = "deadline_exceeded"
    # Nobody is left to be told; it is counted and logged.
    CLIENT_CLOSED = "client_closed"


class Problem(msgspec.Struct, frozen=True, omit_defaults=True):
    """One terminal event of the unhappy sort, as data: it crosses process borders unchanged."""

    kind: ProblemKind
    message: str
    """For the caller: says what would be right. Never a build path, a stack or a prompt's text."""
    param: str | None = None
    """The field at fault, in the caller's own spelling (`messages[2].content`)."""
    retry_after_s: float | None = None
    incident_id: str | None = None
    tokens_emitted: int | None = None
    """Set once tokens have gone out, so a client knows what it already holds."""
    resumable: bool | None = None

    def raised(self) -> "ProblemError":
        """The same problem as an exception, for code that unwinds."""
        return ProblemError(self)


class ProblemError(Exception):
    """Carries a `Problem` up the stack to whoever owns the request's terminal event."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(f"{problem.kind}: {problem.message}")
        self.problem = problem

    @classmethod
    def of(cls, kind: ProblemKind, message: str, *, param: str | None = None) -> Self:
        """Short form for the common case."""
        return cls(Problem(kind=kind, message=message, param=param))
