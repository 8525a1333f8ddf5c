"""The last guard: arithmetic alone."""

import pytest

from refloat.engines.base import EngineRequest, RequestKey
from refloat.wire.messages import CacheFacts, Capabilities, Output, SamplingParams
from refloat.wire.problem import ProblemKind
from refloat.worker.guard import AdmissionGuard


def request(
    generation: int, prompt: int, max_tokens: int, offset: int = 0, temperature: float = 0.0
) -> EngineRequest:
    tokens = [1] * (prompt + offset)
    params = SamplingParams(max_tokens=max_tokens, temperature=temperature)
    return EngineRequest(RequestKey(generation, 1), tokens, offset, params)


def guard(blocks: int = 10, **capabilities: bool | int) -> AdmissionGuard:
    return AdmissionGuard(
        Capabilities(**capabilities),  # pyright: ignore[reportArgumentType]
        CacheFacts(block_size=16, num_blocks=blocks),
    )


def kind(problem: object) -> ProblemKind | None:
    return getattr(problem, "kind", None)


def token(generation: int, position: int = 0) -> Output:
    return Output(generation, 1, position, (7,))


def test_request_that_fills_the_cache_exactly_is_taken() -> None:
    counting = guard()
    assert counting.problem(request(1, 100, 60)) is None
    assert counting.take(request(1, 100, 60))


def test_request_of_one_token_more_is_overload() -> None:
    problem = guard().problem(request(1, 100, 61))
    assert problem is not None
    assert problem.kind is ProblemKind.OVERLOADED
    assert "11 KV blocks" in problem.message


def test_emitted_ids_count_once() -> None:
    assert guard().problem(request(1, 100, 60, offset=50)) is None
    assert guard().problem(request(1, 100, 61, offset=50)) is not None


@pytest.mark.parametrize("offset", [60, 61])
def test_request_with_nothing_left_is_invalid(offset: int) -> None:
    assert kind(guard().problem(request(1, 10, 60, offset))) is ProblemKind.INVALID_REQUEST


def test_same_attempt_twice_is_our_own_fault() -> None:
    counting = guard()
    assert counting.take(request(1, 10, 10))
    assert kind(counting.problem(request(1, 10, 10))) is ProblemKind.INTERNAL_ERROR


def test_newcomer_without_room_is_given_back_and_holds_nothing() -> None:
    counting = guard()
    assert counting.take(request(1, 100, 20))
    assert not counting.take(request(2, 48, 20)), "7 + 3, and one more a step later"
    assert counting.take(request(3, 47, 20))
    counting.release(RequestKey(1, 1))
    counting.release(RequestKey(1, 1))
    assert counting.take(request(2, 48, 20))


def test_sequences_beyond_the_engine_capacity_are_given_back() -> None:
    counting = AdmissionGuard(Capabilities(capacity=1), None)
    assert counting.take(request(1, 10_000, 10))
    assert not counting.take(request(2, 1, 1))
    counting.release(RequestKey(1, 1))
    assert counting.take(request(2, 1, 1))


def test_youngest_is_stopped_one_step_before_a_block_would_be_missing() -> None:
    counting = guard(4)
    for generation in (3, 1, 2):
        assert counting.take(request(generation, 14, 40))
    assert counting.victims() == []
    counting.stepped([token(1), token(2), token(3)], 3)  # 15 tokens each, 16 in the next step
    assert counting.victims() == []
    counting.stepped([token(number, 1) for number in (1, 2, 3)], 3)
    assert counting.victims() == [RequestKey(3, 1), RequestKey(2, 1)][:1]
    assert counting.victims() == [], "those who leave are not counted for a second time"
    counting.stepped([Output(3, 1, 2, (), None, "cancelled"), token(1, 2), token(2, 2)], 3)
    assert counting.victims() == []


def test_sampled_ones_are_stopped_last_and_the_oldest_never() -> None:
    counting = guard(3)
    for generation, temperature in ((1, 0.0), (2, 0.0), (3, 1.0)):
        assert counting.take(request(generation, 14, 34, temperature=temperature))
    for position in range(2):
        counting.stepped([token(number, position) for number in (1, 2, 3)], 3)
    assert counting.victims() == [RequestKey(2, 1), RequestKey(3, 1)]
    for position in range(2, 9):
        counting.stepped([token(1, position)], 3)
        assert counting.victims() == []


def test_hybrid_is_stopped_a_step_earlier() -> None:
    counting = guard(3, hybrid=True)
    for generation in (1, 2):
        assert counting.take(request(generation, 14, 34))
    counting.stepped([token(1), token(2)], -1)
    assert counting.victims() == [RequestKey(2, 1)]


def test_engine_that_cannot_resume_is_given_what_fits_to_its_end() -> None:
    counting = guard(10, token_resume=False)
    assert counting.take(request(1, 40, 40))
    assert not counting.take(request(2, 60, 40))
    assert counting.take(request(3, 40, 40))
    for position in range(40):
        counting.stepped([token(1, position), token(3, position)], -1)
        assert counting.victims() == []


def test_cancelled_one_holds_its_blocks_until_its_end() -> None:
    counting = guard()
    assert counting.take(request(1, 100, 20))
    counting.leave(RequestKey(1, 1))
    counting.leave(RequestKey(9, 1))
    assert not counting.take(request(2, 60, 20))
    counting.stepped([Output(1, 1, 0, (), None, "ignored")], 7)
    assert counting.take(request(2, 60, 20))
