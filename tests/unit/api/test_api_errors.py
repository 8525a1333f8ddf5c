"""The error table and the bodies it makes."""

import json

import pytest

from refloat.api.errors import (
    RETRY_AFTER_MAX_S,
    ROWS,
    Retry,
    error_answer,
    internal_problem,
    openai_error_body,
    retry_after,
)
from refloat.wire.problem import Problem, ProblemKind

CALLERS = {
    ProblemKind.INVALID_REQUEST: 400,
    ProblemKind.UNSUPPORTED_VALUE: 400,
    ProblemKind.CONTEXT_LENGTH_EXCEEDED: 400,
    ProblemKind.INVALID_API_KEY: 401,
    ProblemKind.FORBIDDEN: 403,
    ProblemKind.NOT_FOUND: 404,
    ProblemKind.MODEL_NOT_FOUND: 404,
    ProblemKind.METHOD_NOT_ALLOWED: 405,
    ProblemKind.CONFLICT: 409,
    ProblemKind.REQUEST_TOO_LARGE: 413,
    ProblemKind.UNSUPPORTED_MEDIA_TYPE: 415,
    ProblemKind.IDEMPOTENCY_MISMATCH: 422,
    ProblemKind.QUEUE_FULL: 429,
    ProblemKind.TENANT_SUSPENDED: 429,
    ProblemKind.HEADERS_TOO_LARGE: 431,
    ProblemKind.CLIENT_CLOSED: 499,
}


@pytest.mark.parametrize("kind", list(ProblemKind))
def test_kind_has_an_honest_row(kind: ProblemKind) -> None:
    row = ROWS[kind]
    if kind in CALLERS:
        assert row.status == CALLERS[kind]
        assert row.type != "server_error"
    else:
        assert row.status in (500, 503, 504)
        assert row.type == "server_error"
        assert row.code != "context_length_exceeded"


@pytest.mark.parametrize("kind", list(ProblemKind))
def test_answer_is_openais_error_object(kind: ProblemKind) -> None:
    answer = error_answer(Problem(kind, "says why", param="n"))
    body = json.loads(answer.body)
    assert set(body) == {"error"}
    assert set(body["error"]) == {"message", "type", "param", "code"}
    headers = dict(answer.headers)
    assert headers[b"content-type"] == b"application/json"
    assert (b"retry-after" in headers) is (ROWS[kind].retry is Retry.LATER)


def test_final_errors_forbid_retries_and_passing_ones_ask_for_them() -> None:
    final = dict(error_answer(Problem(ProblemKind.POISON_REQUEST, "x")).headers)
    passing = dict(error_answer(Problem(ProblemKind.MODEL_RECOVERING, "x")).headers)
    assert final[b"x-should-retry"] == b"false"
    assert passing[b"x-should-retry"] == b"true"


def test_body_carries_what_is_known_of_the_incident() -> None:
    problem = Problem(
        ProblemKind.ENGINE_ERROR,
        "x",
        retry_after_s=300.0,
        incident_id="inc-1",
        tokens_emitted=0,
        resumable=False,
    )
    error = openai_error_body(problem)["error"]
    assert error["retry_after_s"] == 300.0
    assert (error["incident_id"], error["tokens_emitted"], error["resumable"]) == (
        "inc-1",
        0,
        False,
    )


def test_model_not_found_blames_the_model() -> None:
    assert openai_error_body(Problem(ProblemKind.MODEL_NOT_FOUND, "x"))["error"]["param"] == "model"


@pytest.mark.parametrize("estimate", [None, -1.0, 0.0, 0.2, 10.0, 59.9, 3600.0])
def test_retry_after_is_whole_spread_and_clamped(estimate: float | None) -> None:
    values = [retry_after(estimate) for _ in range(200)]
    low = 1 if estimate is None else max(1, min(RETRY_AFTER_MAX_S, int(estimate)))
    assert all(low <= value <= RETRY_AFTER_MAX_S for value in values)
    if estimate == 10.0:
        assert len(set(values)) > 1


def test_internal_problem_tells_no_internals() -> None:
    problem = internal_problem("req-9")
    assert "req-9" in problem.message
    assert problem.kind is ProblemKind.INTERNAL_ERROR
