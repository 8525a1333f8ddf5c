"""How long a step may take: what steps like it took before, times a factor, and never below a floor.

Pure. Costs are learnt from steps seen to begin on the progress page and to end by their frame; they
belong to a configuration, not to a process, so a worker begins with what its predecessors took.
"""

from collections import deque
from typing import NamedTuple

import msgspec

from refloat.supervisor.watch import Budget
from refloat.wire.messages import EngineSpec
from refloat.wire.progress import Progress

#: Observations that count; older ones are forgotten.
_WINDOW = 64
#: Of the observations, this share is no longer than what is predicted: one step in which kernels were
#: compiled does not stretch the budgets of all that follow.
_QUANTILE = 0.9
#: A step may take this many times what is predicted.
BUDGET_FACTOR = 4.0


class StepShape(NamedTuple):
    """What a step has to compute."""

    prefill_tokens: int
    sequences: int
    """That are decoded or prefilled in it."""


def shape_of(progress: Progress) -> StepShape:
    """From the page: its tokens are the prompt's chunk and one for each sequence of the batch."""
    sequences = len(progress.generations)
    return StepShape(max(0, progress.tokens - sequences), sequences)


class StepCosts:
    """What steps of one configuration take, as observed."""

    def __init__(self) -> None:
        self._decode_s: deque[float] = deque(maxlen=_WINDOW)
        """Steps without prefill."""
        self._prefill_s: deque[float] = deque(maxlen=_WINDOW)
        """Per prompt token, what a decode step takes taken off."""

    def observe(self, shape: StepShape, took_s: float) -> None:
        """A step of this shape has ended. What cannot be (a page was scribbled on) is ignored."""
        if took_s < 0:
            return
        if shape.prefill_tokens == 0:
            self._decode_s.append(took_s)
        else:
            rest_s = max(0.0, took_s - _typical(self._decode_s))
            self._prefill_s.append(rest_s / shape.prefill_tokens)

    def predict(self, shape: StepShape) -> float:
        """Seconds that such a step takes; 0 while nothing like it has been seen."""
        return _typical(self._decode_s) + shape.prefill_tokens * _typical(self._prefill_s)


class CostBook:
    """The costs of every configuration that a model has run with (each rung of a ladder is one)."""

    def __init__(self) -> None:
        self._costs: dict[bytes, StepCosts] = {}

    def of(self, spec: EngineSpec) -> StepCosts:
        """Those of a configuration; its fault plan is none of it."""
        bare = msgspec.structs.replace(spec, faults=())
        key = msgspec.json.encode(bare, order="sorted", enc_hook=str)
        return self._costs.setdefault(key, StepCosts())


def step_budget(
    floor_s: float, cap_s: float, *, predicted_s: float = 0.0, compile_s: float = 0.0
) -> Budget:
    """The budget of one step. `floor_s` without a sign of life, `cap_s` while the processor or the
    device works; a prediction can only add. `compile_s` is known to come on top (a grammar)."""
    expected_s = BUDGET_FACTOR * predicted_s
    return Budget(max(floor_s, expected_s) + compile_s, max(cap_s, expected_s) + compile_s)


def _typical(values: deque[float]) -> float:
    if not values:
        return 0.0
    return sorted(values)[int(_QUANTILE * (len(values) - 1))]
