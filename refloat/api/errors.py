"""The one table from `ProblemKind` to HTTP, and the bodies of errors in both shapes.

Which route answers in which shape is in `error_shapes.py`; statuses and headers are the same for all.
"""

import math
import random
from collections.abc import Callable
from enum import StrEnum
from typing import Any, NamedTuple

import msgspec

from refloat.wire.problem import Problem, ProblemError, ProblemKind

#: OpenAI's SDK gives up on a Retry-After of more than two minutes, so none is ever near it.
RETRY_AFTER_MAX_S = 60
_RETRY_AFTER_UNKNOWN_S = 2.0
_JITTER = 0.25

Headers = list[tuple[bytes, bytes]]


class Retry(StrEnum):
    """What a client should make of an error; becomes `x-should-retry`."""

    NEVER = "false"
    LATER = "true"
    """Carries `Retry-After` too."""
    UNSAID = ""
    """The client's own rule holds."""


class Row(NamedTuple):
    """How one kind of problem looks in HTTP."""

    status: int
    type: str
    """OpenAI's."""
    anthropic_type: str
    code: str | None
    retry: Retry = Retry.NEVER
    close: bool = False
    """The connection is not used for another request."""


_INVALID = "invalid_request_error"
_SERVER = "server_error"
_RATE = "rate_limit_error"
_A_INVALID, _A_SERVER, _A_BUSY = "invalid_request_error", "api_error", "overloaded_error"
_K = ProblemKind

ROWS: dict[ProblemKind, Row] = {
    _K.INVALID_REQUEST: Row(400, _INVALID, _A_INVALID, None),
    _K.UNSUPPORTED_VALUE: Row(400, _INVALID, _A_INVALID, "unsupported_value"),
    _K.CONTEXT_LENGTH_EXCEEDED: Row(400, _INVALID, _A_INVALID, "context_length_exceeded"),
    _K.INVALID_API_KEY: Row(401, _INVALID, "authentication_error", "invalid_api_key"),
    _K.FORBIDDEN: Row(403, "permission_error", "permission_error", "forbidden"),
    _K.NOT_FOUND: Row(404, _INVALID, "not_found_error", "not_found"),
    _K.MODEL_NOT_FOUND: Row(404, _INVALID, "not_found_error", "model_not_found"),
    _K.METHOD_NOT_ALLOWED: Row(405, _INVALID, _A_INVALID, "method_not_allowed"),
    _K.CONFLICT: Row(409, _INVALID, _A_INVALID, "conflict"),
    _K.IDEMPOTENCY_MISMATCH: Row(422, _INVALID, _A_INVALID, "idempotency_mismatch"),
    _K.REQUEST_TOO_LARGE: Row(413, _INVALID, "request_too_large", "request_too_large", close=True),
    _K.HEADERS_TOO_LARGE: Row(431, _INVALID, "request_too_large", "headers_too_large", close=True),
    _K.UNSUPPORTED_MEDIA_TYPE: Row(415, _INVALID, _A_INVALID, "unsupported_media_type"),
    _K.QUEUE_FULL: Row(429, _RATE, _RATE, "queue_full", Retry.LATER),
    _K.TENANT_SUSPENDED: Row(429, _RATE, _RATE, "tenant_suspended", Retry.LATER),
    _K.ENGINE_ERROR: Row(500, _SERVER, _A_SERVER, "engine_error", Retry.UNSAID),
    _K.INTERNAL_ERROR: Row(500, _SERVER, _A_SERVER, "internal_error", Retry.UNSAID),
    _K.POISON_REQUEST: Row(500, _SERVER, _A_SERVER, "poison_request"),
    _K.MODEL_LOADING: Row(503, _SERVER, _A_BUSY, "model_loading", Retry.LATER),
    _K.MODEL_RECOVERING: Row(503, _SERVER, _A_BUSY, "model_recovering", Retry.LATER),
    _K.MODEL_FAILED: Row(503, _SERVER, _A_SERVER, "model_failed"),
    _K.CHAT_TEMPLATE_UNAVAILABLE: Row(503, _SERVER, _A_SERVER, "chat_template_unavailable"),
    _K.INSUFFICIENT_MEMORY: Row(503, _SERVER, _A_BUSY, "insufficient_memory", Retry.LATER),
    _K.OVERLOADED: Row(503, _SERVER, _A_BUSY, "overloaded", Retry.LATER),
    _K.DRAINING: Row(503, _SERVER, _A_BUSY, "draining", Retry.LATER, close=True),
    _K.DEADLINE_EXCEEDED: Row(504, _SERVER, "timeout_error", "deadline_exceeded"),
    _K.CLIENT_CLOSED: Row(499, _INVALID, _A_INVALID, "client_closed", close=True),
}
assert set(ROWS) == set(ProblemKind), set(ProblemKind) ^ set(ROWS)

ErrorShape = Callable[[Problem], dict[str, Any]]

encode_json = msgspec.json.Encoder().encode


class ClientGoneError(Exception):
    """The client has left, or takes nothing any more: nobody is there to be answered."""


JSON_TYPE = (b"content-type", b"application/json")


class Answer(NamedTuple):
    """A whole HTTP answer, ready to be sent."""

    body: bytes
    status: int = 200
    headers: Headers = [JSON_TYPE]  # noqa: RUF012  (never changed)


def invalid(message: str, param: str | None) -> ProblemError:
    """The caller's own mistake, in the form that everybody here raises."""
    return ProblemError.of(ProblemKind.INVALID_REQUEST, message, param=param)


def internal_problem(request_id: str) -> Problem:
    """For what nobody expected: says nothing of our insides, only how to find them in the log."""
    message = f"The server failed on this request (request id {request_id}); it is in its log."
    return Problem(kind=ProblemKind.INTERNAL_ERROR, message=message)


def openai_error_body(problem: Problem) -> dict[str, Any]:
    """`{"error": {...}}` as OpenAI's clients read it, plus what we know beyond it."""
    row = ROWS[problem.kind]
    param = problem.param
    if param is None and problem.kind is ProblemKind.MODEL_NOT_FOUND:
        param = "model"
    error: dict[str, Any] = {
        "message": problem.message,
        "type": row.type,
        "param": param,
        "code": row.code,
    }
    return {"error": {**error, **_beyond(problem)}}


def anthropic_error_body(problem: Problem) -> dict[str, Any]:
    """`{"type": "error", "error": {...}}` as Anthropic's clients read it, plus what we know."""
    row = ROWS[problem.kind]
    error: dict[str, Any] = {"type": row.anthropic_type, "message": problem.message}
    if problem.param is not None:
        error["param"] = problem.param
    if row.code is not None:
        error["code"] = row.code
    return {"type": "error", "error": {**error, **_beyond(problem)}}


def _beyond(problem: Problem) -> dict[str, Any]:
    """What no client asks for by itself, where it is known."""
    names = ("incident_id", "tokens_emitted", "resumable", "retry_after_s")
    return {name: value for name in names if (value := getattr(problem, name)) is not None}


def error_answer(problem: Problem, shape: ErrorShape = openai_error_body) -> Answer:
    """The HTTP answer that tells a problem."""
    row = ROWS[problem.kind]
    headers: Headers = [(b"content-type", b"application/json")]
    if row.retry is not Retry.UNSAID:
        headers.append((b"x-should-retry", row.retry.value.encode()))
    if row.retry is Retry.LATER:
        headers.append((b"retry-after", str(retry_after(problem.retry_after_s)).encode()))
    if row.status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    if row.close:
        headers.append((b"connection", b"close"))
    return Answer(encode_json(shape(problem)), row.status, headers)


def retry_after(estimate_s: float | None) -> int:
    """Whole seconds for the header: the estimate, spread so that waiting clients do not return as one,
    and clamped. The unclamped estimate is in the body."""
    seconds = _RETRY_AFTER_UNKNOWN_S if estimate_s is None else max(0.0, estimate_s)
    seconds = min(seconds, float(RETRY_AFTER_MAX_S))
    spread = seconds * (1 + random.random() * _JITTER)
    return max(1, min(RETRY_AFTER_MAX_S, math.ceil(spread)))
