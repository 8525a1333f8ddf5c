"""Delays and the crash budget."""

import pytest

from refloat.supervisor.backoff import BackoffPolicy, CrashBudget


def test_backoff_first_fault_of_a_series_waits_for_nothing() -> None:
    assert BackoffPolicy().delay_s(1, 0.99) == 0.0


def test_backoff_delays_double_up_to_the_longest() -> None:
    policy = BackoffPolicy(base_s=0.5, max_s=4.0)
    assert [policy.delay_s(n, 0.0) for n in range(2, 8)] == [0.5, 1.0, 2.0, 4.0, 4.0, 4.0]
    assert policy.delay_s(10_000, 0.0) == 4.0


@pytest.mark.parametrize("chance", [0.0, 0.5, 0.999])
def test_backoff_jitter_takes_away_at_most_its_share(chance: float) -> None:
    delay_s = BackoffPolicy(base_s=1.0, jitter=0.5).delay_s(2, chance)
    assert 0.5 < delay_s <= 1.0


def test_crash_budget_is_spent_by_the_fifth_fault_in_the_window() -> None:
    budget = CrashBudget(limit=5, window_s=60.0)
    for served_s in (0.0, 1.0, 2.0, 3.0):
        budget.charge(served_s)
        assert not budget.is_spent
    budget.charge(60.0)
    assert budget.is_spent


def test_crash_budget_faults_long_served_are_forgotten_but_still_a_series() -> None:
    budget = CrashBudget(limit=2, window_s=60.0)
    budget.charge(0.0)
    budget.charge(61.0)
    assert not budget.is_spent
    assert budget.series == 2


def test_crash_budget_progress_clears_it() -> None:
    budget = CrashBudget(limit=1)
    budget.charge(0.0)
    assert budget.is_spent
    budget.clear()
    assert not budget.is_spent
    assert budget.series == 0
