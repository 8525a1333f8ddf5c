"""Budgets of steps from observed costs, as plain calls."""

import pytest

from refloat.supervisor.prediction import (
    BUDGET_FACTOR,
    CostBook,
    StepCosts,
    StepShape,
    shape_of,
    step_budget,
)
from refloat.wire.messages import EngineSpec
from refloat.wire.progress import Phase, Progress

_DECODE = StepShape(0, 4)
_PREFILL = StepShape(500, 4)


def page(tokens: int, batch: tuple[int, ...]) -> Progress:
    return Progress(Phase.STEPPING, 7, tokens, 0, 1, batch)


@pytest.mark.parametrize(
    ("tokens", "batch", "shape"),
    [
        (3, (1, 2, 3), StepShape(0, 3)),
        (512, (1,), StepShape(511, 1)),
        (0, (), StepShape(0, 0)),
        (0, (1, 2), StepShape(0, 2)),
    ],
)
def test_shape_of_a_step_is_read_from_the_page(
    tokens: int, batch: tuple[int, ...], shape: StepShape
) -> None:
    assert shape_of(page(tokens, batch)) == shape


def test_costs_of_what_was_never_seen_are_nothing() -> None:
    assert StepCosts().predict(_PREFILL) == 0.0


def test_costs_of_prefill_grow_with_its_tokens_and_come_on_top_of_a_decode_step() -> None:
    costs = StepCosts()
    costs.observe(_DECODE, 0.1)
    costs.observe(_PREFILL, 5.1)
    assert costs.predict(_DECODE) == pytest.approx(0.1)
    assert costs.predict(_PREFILL) == pytest.approx(5.1)
    assert costs.predict(StepShape(1_000, 4)) == pytest.approx(10.1)


def test_costs_one_step_of_compilation_does_not_stretch_what_follows() -> None:
    costs = StepCosts()
    costs.observe(_DECODE, 60.0)
    costs.observe(_DECODE, 0.1)
    for _ in range(5):
        costs.observe(_DECODE, 0.1)
    assert costs.predict(_DECODE) == pytest.approx(0.1)


def test_costs_follow_a_device_that_has_become_slow() -> None:
    costs = StepCosts()
    for _ in range(64):
        costs.observe(_DECODE, 0.1)
    for _ in range(10):
        costs.observe(_DECODE, 20.0)
    assert costs.predict(_DECODE) == pytest.approx(20.0)


def test_costs_a_page_that_was_scribbled_on_teaches_nothing() -> None:
    costs = StepCosts()
    costs.observe(_DECODE, -5.0)
    assert costs.predict(_DECODE) == 0.0


def test_costs_belong_to_a_configuration_and_outlive_its_fault_plan() -> None:
    book = CostBook()
    spec = EngineSpec("scripted", "", faults=({"at": "step", "kind": "kill"},))
    assert book.of(spec) is book.of(EngineSpec("scripted", ""))
    assert book.of(spec) is not book.of(EngineSpec("scripted", "", max_num_batched_tokens=64))


@pytest.mark.parametrize(
    ("predicted_s", "compile_s", "floor_s", "cap_s"),
    [
        (0.0, 0.0, 10.0, 180.0),
        (2.0, 0.0, 10.0, 180.0),
        (20.0, 0.0, 20.0 * BUDGET_FACTOR, 180.0),
        (100.0, 0.0, 100.0 * BUDGET_FACTOR, 100.0 * BUDGET_FACTOR),
        (0.0, 3.0, 13.0, 183.0),
    ],
)
def test_budget_is_the_floor_or_the_prediction_and_what_is_known_to_be_compiled(
    predicted_s: float, compile_s: float, floor_s: float, cap_s: float
) -> None:
    budget = step_budget(10.0, 180.0, predicted_s=predicted_s, compile_s=compile_s)
    assert (budget.floor_s, budget.cap_s) == (floor_s, cap_s)
