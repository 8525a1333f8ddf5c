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
    """The body, a field or the HTTP itself is wrong; the message says what would be right."""
    UNSUPPORTED_VALUE = "unsupported_value"
    """A documented field of OpenAI's asks for what is not there yet."""
    CONTEXT_LENGTH_EXCEEDED = "context_length_exceeded"
    """Prompt and answer do not fit the model's context or its whole KV cache."""
    INVALID_API_KEY = "invalid_api_key"
    """Keys are set, and none or a wrong one came."""
    FORBIDDEN = "forbidden"
    """The key is right but may not do this."""
    NOT_FOUND = "not_found"
    """There is no such route."""
    MODEL_NOT_FOUND = "model_not_found"
    """No model of that name is served."""
    METHOD_NOT_ALLOWED = "method_not_allowed"
    """The route does not take this method; `Allow` names those it takes."""
    CONFLICT = "conflict"
    """An operation that excludes another one under way."""
    IDEMPOTENCY_MISMATCH = "idempotency_mismatch"
    """An idempotency key came again with another body."""
    REQUEST_TOO_LARGE = "request_too_large"
    """The body is larger than the limit, or its prompt too large to be prepared."""
    HEADERS_TOO_LARGE = "headers_too_large"
    """The request line and headers are larger than the limit."""
    UNSUPPORTED_MEDIA_TYPE = "unsupported_media_type"
    """The body is not JSON, or compressed."""
    QUEUE_FULL = "queue_full"
    """As many generations wait for the model as may."""
    TENANT_SUSPENDED = "tenant_suspended"
    """Too many of this tenant's requests were convicted of late (`poison_request`)."""
    # The server's own.
    ENGINE_ERROR = "engine_error"
    """The engine broke off this generation and could not go on with it."""
    INTERNAL_ERROR = "internal_error"
    """A defect of the server; its log has the request id."""
    POISON_REQUEST = "poison_request"
    """This request by itself ends the process that works on it."""
    MODEL_LOADING = "model_loading"
    """The model is loading, and longer than requests are held."""
    MODEL_RECOVERING = "model_recovering"
    """The model's worker is being replaced, and that takes longer than requests are held."""
    MODEL_FAILED = "model_failed"
    """The model cannot be loaded, or failed too often; the message says why."""
    CHAT_TEMPLATE_UNAVAILABLE = "chat_template_unavailable"
    """The model has no usable chat template; text completions work."""
    INSUFFICIENT_MEMORY = "insufficient_memory"
    """Memory ran out, or the next worker's KV cache is too small to go on."""
    OVERLOADED = "overloaded"
    """The byte budget is used up, or the tokenizer has more to do than it can."""
    DRAINING = "draining"
    """The server is shutting down."""
    DEADLINE_EXCEEDED = "deadline_exceeded"
    """The answer was not complete before the request's deadline."""
    # Nobody is left to be told; it is counted and logged.
    CLIENT_CLOSED = "client_closed"
    """The client left; seen in logs and metrics only."""


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


class TooManyTokensError(Exception):
    """A text has more tokens than were asked for. Whoever asked knows what limit that breaks."""

    def __init__(self, count: int) -> None:
        super().__init__(f"{count} tokens")
        self.count = count


class ProblemError(Exception):
    """Carries a `Problem` up the stack to whoever owns the request's terminal event."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(f"{problem.kind}: {problem.message}")
        self.problem = problem

    @classmethod
    def of(cls, kind: ProblemKind, message: str, *, param: str | None = None) -> Self:
        """Short form for the common case."""
        return cls(Problem(kind=kind, message=message, param=param))
