"""Convictions are counted for each tenant, and too many make it wait."""

import pytest

from refloat.generation.charges import Charges
from refloat.wire.problem import ProblemKind


def test_charges_below_the_limit_cost_nothing() -> None:
    charges = Charges(limit=3, window_s=600.0)
    for now_s in (0.0, 1.0):
        charges.charge("a", now_s)
    assert charges.problem("a", 1.0) is None


def test_charges_at_the_limit_make_that_tenant_wait_until_the_oldest_is_past() -> None:
    charges = Charges(limit=3, window_s=600.0)
    for now_s in (0.0, 100.0, 200.0):
        charges.charge("a", now_s)
    problem = charges.problem("a", 250.0)
    assert problem is not None
    assert problem.kind is ProblemKind.TENANT_SUSPENDED
    assert problem.retry_after_s == 350.0
    assert charges.problem("b", 250.0) is None
    assert charges.problem("a", 599.9) is not None
    assert charges.problem("a", 600.0) is None


def test_charges_far_apart_never_add_up() -> None:
    charges = Charges(limit=2, window_s=10.0)
    for now_s in (0.0, 20.0, 40.0):
        charges.charge("a", now_s)
        assert charges.problem("a", now_s) is None


def test_charges_of_tenants_long_past_are_forgotten() -> None:
    charges = Charges(limit=1, window_s=10.0)
    for number in range(100):
        charges.charge(f"t{number}", float(number))
    assert len(charges._convicted) <= 10  # pyright: ignore[reportPrivateUsage]
    assert charges.problem("t99", 99.0) is not None


def test_charges_without_room_for_any_are_refused() -> None:
    with pytest.raises(ValueError, match="everybody"):
        Charges(limit=0, window_s=1.0)
