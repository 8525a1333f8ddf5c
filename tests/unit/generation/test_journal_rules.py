"""The journal and its table: what it takes, what it refuses, and that it survives as bytes."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from refloat.generation.events import FinishReason
from refloat.generation.journal import Accepted, Journal, Refusal
from refloat.generation.states import (
    TERMINAL,
    TRANSITIONS,
    GenerationEvent,
    GenerationState,
    IllegalTransitionError,
    next_state,
)
from refloat.wire.messages import Output, SamplingParams, unpack_ids


def journal(**params: int | tuple[int, ...] | float) -> Journal:
    known = {"max_tokens": 5, "stop_token_ids": (9,)} | params
    return Journal(1, "t", 0, [1, 2, 3], msgspec.convert(known, SamplingParams))


def ids_of(result: Accepted | Refusal) -> tuple[int, ...]:
    assert isinstance(result, Accepted), result
    return result.ids


def test_accept_before_any_dispatch_or_after_a_loss_is_stale() -> None:
    made = journal()
    assert made.accept(Output(1, 0, 0, (4,))) is Refusal.STALE_ATTEMPT
    made.dispatch()
    made.accept(Output(1, 1, 0, (4,)))
    made.apply(GenerationEvent.LOSE)
    assert made.accept(Output(1, 1, 1, (4,))) is Refusal.STALE_ATTEMPT
    assert made.emitted == [4]


def test_accept_of_another_offset_is_a_gap_and_changes_nothing() -> None:
    made = journal()
    made.dispatch()
    made.accept(Output(1, 1, 0, (4, 5)))
    for offset in (0, 1, 3):
        assert made.accept(Output(1, 1, offset, (7,))) is Refusal.OFFSET_GAP
    assert made.emitted == [4, 5]


def test_accept_of_uneven_logprobs_is_refused_and_changes_nothing() -> None:
    made = journal(logprobs=True)
    made.dispatch()
    for logprobs in ((), (-1.0,), (-1.0, -1.0, -1.0)):
        assert made.accept(Output(1, 1, 0, (4, 5), logprobs)) is Refusal.UNEVEN
    assert made.emitted == made.logprobs == []


def test_accept_cuts_behind_what_completes_it() -> None:
    made = journal(logprobs=True)
    made.dispatch()
    result = made.accept(Output(1, 1, 0, (4, 9, 7), (-1.0, -2.0, -3.0)))
    assert result == Accepted((4, 9), (-1.0, -2.0), FinishReason.STOP)
    assert made.accept(Output(1, 1, 2, (7,))) is Refusal.ENDED
    longer = journal()
    longer.dispatch()
    result = longer.accept(Output(1, 1, 0, (1, 2, 3, 4, 5, 6)))
    assert result == Accepted((1, 2, 3, 4, 5), None, FinishReason.LENGTH)
    assert longer.is_terminal


def test_stop_id_before_min_tokens_does_not_end() -> None:
    made = journal(min_tokens=2)
    made.dispatch()
    assert made.accept(Output(1, 1, 0, (9, 9))) == Accepted((9, 9), None, None)
    result = made.accept(Output(1, 1, 2, (9,)))
    assert result == Accepted((9,), None, FinishReason.STOP)


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_dispatch_again_goes_on_from_what_was_emitted(temperature: float) -> None:
    made = journal(temperature=temperature, seed=3)
    assert made.dispatch().params == made.params
    made.accept(Output(1, 1, 0, (4, 5)))
    made.apply(GenerationEvent.LOSE)
    add = made.dispatch()
    assert (add.attempt, add.offset, unpack_ids(add.tokens)) == (2, 2, [1, 2, 3, 4, 5])
    assert add.params.max_tokens == 5, "counted from the end of the original prompt"
    assert (add.params.seed == 3) is (temperature == 0.0)


@given(st.lists(st.lists(st.integers(0, 8), min_size=1, max_size=3), max_size=4), st.booleans())
def test_journal_survives_as_bytes_at_any_point(frames: list[list[int]], lost: bool) -> None:
    made = journal(max_tokens=100)
    made.dispatch()
    for frame in frames:
        made.accept(Output(1, 1, len(made.emitted), tuple(frame)))
    if lost:
        made.apply(GenerationEvent.LOSE)
    again = msgspec.msgpack.decode(msgspec.msgpack.encode(made), type=Journal)
    assert again == made
    if lost:
        assert again.dispatch() == made.dispatch()
    else:
        result = again.accept(Output(1, 1, len(made.emitted), (9,)))
        assert ids_of(result) == (9,)


@pytest.mark.parametrize("state", GenerationState)
@pytest.mark.parametrize("event", GenerationEvent)
def test_every_pair_is_in_the_table_or_illegal(
    state: GenerationState, event: GenerationEvent
) -> None:
    if (state, event) in TRANSITIONS:
        assert state not in TERMINAL, "nothing leaves a terminal state"
        assert next_state(state, event) is TRANSITIONS[state, event]
        return
    with pytest.raises(IllegalTransitionError):
        next_state(state, event)


@given(st.lists(st.sampled_from(GenerationEvent), max_size=12))
def test_any_walk_reaches_a_terminal_state_at_most_once(events: list[GenerationEvent]) -> None:
    state, endings = GenerationState.QUEUED, 0
    for event in events:
        try:
            state = next_state(state, event)
        except IllegalTransitionError:
            continue
        endings += state in TERMINAL
    assert endings == (state in TERMINAL)


def test_every_live_state_can_be_cancelled() -> None:
    for state in set(GenerationState) - TERMINAL:
        assert next_state(state, GenerationEvent.CANCEL) is GenerationState.CANCELLED
