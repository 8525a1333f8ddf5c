"""What a full line tells those whom it turns away: its own measured pace, bounded."""

import pytest

from refloat.generation.drain_rate import LEAST_S, MOST_S, WINDOW_S, DrainRate


def test_pace_is_unknown_before_anything_left() -> None:
    assert DrainRate(3.0).retry_after_s(100, 50.0) == 3.0


def test_projection_is_half_the_line_at_the_measured_pace() -> None:
    rate = DrainRate(2.0)
    for second in range(20):
        rate.left(100.0 + second)
    assert rate.per_s(120.0) == pytest.approx(1.0)
    assert rate.retry_after_s(40, 120.0) == pytest.approx(20.0)


def test_projection_is_bounded() -> None:
    rate = DrainRate(2.0)
    rate.left(100.0, 2)
    assert rate.retry_after_s(1, 100.1) == LEAST_S
    assert rate.retry_after_s(100_000, 130.0) == MOST_S


def test_pace_falls_while_nothing_leaves_and_is_forgotten_after_a_while() -> None:
    rate = DrainRate(2.0)
    rate.left(100.0, 10)
    waits = [rate.retry_after_s(20, 100.0 + later) for later in (1, 5, 20)]
    assert waits == sorted(waits)
    assert waits[0] < waits[-1]
    assert rate.retry_after_s(20, 101.0 + WINDOW_S) == 2.0


def test_memory_of_departures_is_bounded() -> None:
    rate = DrainRate(2.0)
    rate.left(100.0, 10_000_000)
    assert rate.per_s(101.0) == pytest.approx(512)
