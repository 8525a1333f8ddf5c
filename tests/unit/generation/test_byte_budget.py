import pytest
from prometheus_client import CollectorRegistry, Gauge

from refloat.generation.budget import ByteBudget
from refloat.wire.problem import ProblemError, ProblemKind


def test_reserve_beyond_the_limit_is_refused_and_changes_nothing() -> None:
    budget = ByteBudget(100)
    with budget.reserve(60) as lease:
        assert lease.held_bytes == 60
        with pytest.raises(ProblemError) as caught:
            budget.reserve(41)
        assert caught.value.problem.kind is ProblemKind.OVERLOADED
        assert caught.value.problem.retry_after_s is not None
        assert budget.held_bytes == 60
        budget.reserve(40).close()
    assert budget.held_bytes == 0


def test_lease_closed_twice_gives_back_once_and_counts_nothing_after() -> None:
    budget = ByteBudget(100)
    keep = budget.reserve(10)
    lease = budget.reserve(20)
    lease.close()
    lease.close()
    lease.adjust(50)
    assert budget.held_bytes == keep.held_bytes == 10


def test_work_under_way_may_pass_the_limit_and_then_new_work_may_not() -> None:
    budget = ByteBudget(100)
    lease = budget.reserve(90)
    lease.adjust(50)
    with pytest.raises(ProblemError):
        budget.reserve(0)
    lease.adjust(-60)
    budget.reserve(20)
    assert budget.held_bytes == 100


def test_gauge_shows_what_is_held_at_the_scrape() -> None:
    registry = CollectorRegistry()
    budget = ByteBudget(100, Gauge("held", "held", registry=registry))
    budget.reserve(30)
    assert registry.get_sample_value("held") == 30


@pytest.mark.parametrize("size", [0, -1])
def test_budget_of_nothing_is_an_error(size: int) -> None:
    with pytest.raises(ValueError, match="admits nothing"):
        ByteBudget(size)
    with pytest.raises(ValueError, match="cannot be held"):
        ByteBudget(1).reserve(-1)
