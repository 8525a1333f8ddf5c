"""What the policy makes of a full cache and a crowded line, counted in engine steps and not in time."""

import random
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from statistics import median

import pytest

from refloat.generation import dispatch
from refloat.generation.limits import Limits
from refloat.generation.scheduler import Assignment, Pace, Room, Waiting, decide
from refloat.generation.session import Session
from tests.unit.generation.conftest import ENDS_AT
from tests.unit.generation.overload_stage import OverloadStage
from tests.unit.generation.trapped_engine import TrappedEngine

LIMITS = Limits(max_queue=600, step_tokens=64, prefix_caching=False)


@contextmanager
def crowded(blocks: int, slots: int) -> Generator[OverloadStage]:
    """Blocks of eight tokens."""
    engine = TrappedEngine(blocks, 8, max_batched=64, shares=False)
    stage = OverloadStage(engine, limits=LIMITS, max_num_seqs=slots)
    with stage.runner:
        yield stage


def test_overload_by_answers_of_unknown_length_keeps_the_cache_full() -> None:
    """Everybody may have far more tokens than the cache could give to all; none takes many. With half
    of the cache in use all would have begun after some 150 steps."""
    chance = random.Random(3)
    with crowded(blocks=60, slots=64) as stage:
        for _ in range(8):
            stage.ask([ENDS_AT, chance.randrange(4, 27)], max_tokens=27)
        stage.see_everybody_through()
        for _ in range(150):
            stage.ask([ENDS_AT, chance.randrange(4, 27)], max_tokens=200)
        steps = 0
        while stage.metric("refloat_waiting"):
            stage.turn(lag=1)
            steps += 1
            assert steps < 130
        stage.see_everybody_through()
        assert stage.metric("refloat_preemptions_total", why="blocks") < 15


def tokens_a_step(clients: int) -> float:
    """Of so many clients that ask again as soon as they are answered; the cache holds some ten of
    their requests."""
    chance = random.Random(7)
    with crowded(blocks=30, slots=256) as stage:

        def ask() -> Session:
            return stage.ask([ENDS_AT, chance.randrange(4, 27)], max_tokens=100)

        asked, tokens = [ask() for _ in range(clients)], list[float]()
        for _ in range(261):
            tokens.append(stage.metric("refloat_generated_tokens_total"))
            stage.turn(lag=1)
            asked = [session if session.terminal is None else ask() for session in asked]
        return (tokens[260] - tokens[60]) / 200


def test_ten_times_the_cache_gives_as_many_tokens_as_the_best_fixed_number_of_clients() -> None:
    best = max(tokens_a_step(clients) for clients in (10, 12, 15))
    assert best > 9.8
    assert tokens_a_step(100) >= 0.95 * best


def steps_to_first_token(others: int, prompt: int) -> float:
    """Of a tenant that comes while another has so many requests on eight slots."""
    with crowded(blocks=200, slots=8) as stage:
        for _ in range(others):
            stage.ask([1, 2], max_tokens=150, tenant="many")
        for _ in range(12):
            stage.turn(lag=1)
        waits: list[int] = []
        for _ in range(5):
            session = stage.ask([3] * prompt, max_tokens=3, tenant="one")
            waits.append(0)
            while not session.tokens_emitted:
                stage.turn(lag=1)
                waits[-1] += 1
            while session.terminal is None:
                stage.turn(lag=1)
            stage.turn(lag=1)
    return median(waits)


def test_tenant_with_one_request_beside_fifty_waits_no_more_than_twice_as_long() -> None:
    for prompt in (1, 20):
        among_its_share = steps_to_first_token(others=4, prompt=prompt)
        beside_many = steps_to_first_token(others=50, prompt=prompt)
        assert beside_many <= among_its_share + 1, prompt


def test_line_is_looked_at_again_only_when_somebody_has_made_room(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with crowded(blocks=400, slots=2) as stage:
        looked: list[int] = []

        def count(
            waiting: Iterable[Waiting], rooms: Sequence[Room], pace: Pace | None
        ) -> list[Assignment]:
            looked.append(1)
            return decide(waiting, rooms, pace)

        for tokens in (10, 20, 30, 5):
            stage.ask([1, 2], max_tokens=tokens)
        stage.turn()
        monkeypatch.setattr(dispatch, "decide", count)
        for _ in range(8):
            stage.turn()
        assert len(looked) <= 1, "nobody has begun or ended since the first step"
        stage.see_everybody_through()
        assert looked
