"""The last guard: arithmetic alone."""

import pytest

from refloat.engines.base import EngineRequest, RequestKey
from refloat.wire.messages import CacheFacts, SamplingParams
from refloat.wire.problem import ProblemKind
from refloat.worker.guard import AdmissionGuard


def request(generation: int, prompt: int, max_tokens: int, offset: int = 0) -> EngineRequest:
    tokens = [1] * (prompt + offset)
    params = SamplingParams(max_tokens=max_tokens)
    return EngineRequest(RequestKey(generation, 1), tokens, offset, params)


def guard(blocks: int = 10, capacity: int = 99) -> AdmissionGuard:
    return AdmissionGuard(capacity, CacheFacts(block_size=16, num_blocks=blocks))


def kind(problem: object) -> ProblemKind | None:
    return getattr(problem, "kind", None)


def test_request_that_fills_the_cache_exactly_is_taken() -> None:
    assert guard().take(request(1, 100, 60)) is None


def test_request_of_one_token_more_is_overload() -> None:
    problem = guard().take(request(1, 100, 61))
    assert problem is not None
    assert problem.kind is ProblemKind.OVERLOADED
    assert "11 KV blocks" in problem.message


def test_second_request_needs_what_is_left() -> None:
    counting = guard()
    assert counting.take(request(1, 40, 40)) is None
    assert kind(counting.take(request(2, 60, 40))) is ProblemKind.OVERLOADED
    assert counting.take(request(3, 40, 40)) is None


def test_refused_request_holds_nothing() -> None:
    counting = guard()
    assert counting.take(request(1, 200, 1)) is not None
    assert counting.take(request(1, 100, 60)) is None


@pytest.mark.parametrize("releases", [1, 2])
def test_release_gives_back_once(releases: int) -> None:
    counting = guard()
    assert counting.take(request(1, 100, 60)) is None
    for _ in range(releases):
        counting.release(RequestKey(1, 1))
    assert counting.take(request(2, 100, 60)) is None
    assert kind(counting.take(request(3, 1, 1))) is ProblemKind.OVERLOADED


def test_emitted_ids_count_once() -> None:
    assert guard().take(request(1, 100, 60, offset=50)) is None
    assert guard().take(request(1, 100, 61, offset=50)) is not None


@pytest.mark.parametrize("offset", [60, 61])
def test_request_with_nothing_left_is_invalid(offset: int) -> None:
    assert kind(guard().take(request(1, 10, 60, offset))) is ProblemKind.INVALID_REQUEST


def test_same_attempt_twice_is_our_own_fault() -> None:
    counting = guard()
    assert counting.take(request(1, 10, 10)) is None
    assert kind(counting.take(request(1, 10, 10))) is ProblemKind.INTERNAL_ERROR


def test_sequences_beyond_the_engine_capacity_are_overload() -> None:
    counting = AdmissionGuard(1, None)
    assert counting.take(request(1, 10_000, 10)) is None
    assert kind(counting.take(request(2, 1, 1))) is ProblemKind.OVERLOADED
    counting.release(RequestKey(1, 1))
    assert counting.take(request(2, 1, 1)) is None
