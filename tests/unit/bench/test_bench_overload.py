"""Which fixed number of clients a crowd is compared with."""

from refloat.bench.overload import Sample, best_number


def samples(*speeds: float) -> list[Sample]:
    return [Sample(speed, speed, 0) for speed in speeds]


def test_best_number_of_a_round_is_what_the_other_rounds_say() -> None:
    fixed = {10: samples(100, 100, 100), 20: samples(90, 90, 200), 30: samples(95, 95, 95)}
    assert best_number(fixed) == 10
    assert best_number(fixed, but=2) == 10, "its own luck does not choose it"
    assert best_number(fixed, but=0) == 20


def test_best_number_of_a_single_round_is_that_rounds() -> None:
    fixed = {10: samples(100), 20: samples(120)}
    assert best_number(fixed, but=0) == 20
