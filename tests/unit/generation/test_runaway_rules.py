"""Answers that would not end by themselves, and answers that only look like it."""

import asyncio
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refloat.generation.events import ChoiceEnd, FinishReason
from refloat.generation.limits import Limits
from refloat.generation.repetition import LEAST_REPEATS, LoopGuard, shortest_period
from refloat.generation.runaway import Cut, RunawayRules
from tests.unit.generation.conftest import Stage


def first_loop(ids: list[int], window: int) -> int | None:
    """After how many tokens the guard says loop."""
    guard = LoopGuard(window)
    return next((n for n in range(1, len(ids) + 1) if guard.is_looping(ids[:n])), None)


@given(st.lists(st.integers(0, 2), max_size=40))
def test_shortest_period_is_what_the_definition_says(ids: list[int]) -> None:
    found = [p for p in range(1, len(ids) + 1) if ids[p:] == ids[: len(ids) - p]]
    assert shortest_period(ids) == (found[0] if found else 0)


@given(st.lists(st.integers(0, 99), min_size=1, max_size=16), st.integers(0, 99))
def test_loop_is_found_within_a_look_of_its_window(phrase: list[int], seed: int) -> None:
    prose = random.Random(seed).choices(range(1000, 2000), k=50)
    found = first_loop(prose + phrase * 200, 64)
    assert found is not None
    assert len(prose) + 64 - 16 <= found <= len(prose) + 64 + 16


@pytest.mark.parametrize(
    "ids",
    [
        [7] * 60,  # not for long enough
        [n % 17 for n in range(400)],  # the phrase is longer than a quarter of the window
        [7, 8] * 30 + [9] + [7, 8] * 28 + [9] + [7, 8] * 20,  # it says something else in between
        random.Random(1).choices(range(3), k=2000),
    ],
)
def test_what_only_repeats_words_is_no_loop(ids: list[int]) -> None:
    assert 17 * LEAST_REPEATS > 64
    assert first_loop(ids, 64) is None


def test_clock_starts_with_the_first_token() -> None:
    rules = RunawayRules(10.0, 0)
    assert [rules.judge([1], at_s) for at_s in (500.0, 509.9, 510.0)] == [None, None, Cut.TIME]


def test_rules_that_are_off_end_nothing() -> None:
    rules = RunawayRules(None, 0)
    assert rules.judge([7] * 5000, 1.0) is None
    assert rules.judge([7] * 5016, 1e9) is None


def test_answer_that_takes_too_long_is_whole_as_it_stands(stage_of: type[Stage]) -> None:
    stage = stage_of(limits=Limits(max_generation_s=10.0))
    replica = stage.ready()

    async def scene() -> None:
        session = await stage.submit((1, 2, 3), max_tokens=100)
        stage.step(3)
        stage.clock.pass_s(10.0)
        stage.step()
        answer = await stage.read(session)
        assert answer.completed.usage.completion_tokens == 4
        assert ChoiceEnd(0, FinishReason.LENGTH, Cut.TIME) in answer.events
        assert len(replica.cancels) == 1
        stage.run_dry()
        stage.assert_clean()

    asyncio.run(scene())


def test_time_of_a_pause_counts(stage_of: type[Stage]) -> None:
    """A worker that is lost does not give a runaway answer another half hour."""
    stage = stage_of(limits=Limits(max_generation_s=10.0))
    stage.ready()

    async def scene() -> None:
        session = await stage.submit((1, 2, 3), max_tokens=100)
        stage.step()
        stage.lose()
        stage.clock.pass_s(11.0)
        stage.ready()
        stage.step()
        answer = await stage.read(session)
        assert answer.completed.usage.completion_tokens == 2

    asyncio.run(scene())


def test_waiting_in_line_costs_an_answer_nothing(stage_of: type[Stage]) -> None:
    stage = stage_of(limits=Limits(max_generation_s=10.0))

    async def scene() -> None:
        replica = stage.ready()
        stage.dispatch.replica_suspect(replica.worker_id, suspect=True)
        session = await stage.submit((1, 2, 3), max_tokens=3)
        stage.clock.pass_s(20.0)
        stage.dispatch.replica_suspect(replica.worker_id, suspect=False)
        answer = await stage.finish(session)
        assert answer.events.count(ChoiceEnd(0, FinishReason.LENGTH)) == 1  # its own limit

    asyncio.run(scene())
