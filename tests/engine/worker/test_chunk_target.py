"""The real engine made for a target of a step's time."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from refloat.engines.base import EngineRequest, RequestKey
from refloat.engines.chunk import LEAST_CHUNK
from refloat.testing.exact import EXACT_PROPERTIES
from refloat.wire.messages import EngineSpec, SamplingParams
from tests.late_import import late_import

if TYPE_CHECKING:
    from refloat.engines import openvino_cb
else:
    openvino_cb = late_import("refloat.engines.openvino_cb")

pytestmark = pytest.mark.engine

FOLDER = Path(__file__).parents[2] / "data" / "tiny-llm"
KEPT: list[openvino_cb.OpenVinoEngine] = []
"""Never destroyed, as in a worker."""


def loaded(target_s: float) -> openvino_cb.OpenVinoEngine:
    engine = openvino_cb.OpenVinoEngine()
    KEPT.append(engine)
    engine.load(
        EngineSpec(
            "openvino_cb",
            str(FOLDER),
            properties=EXACT_PROPERTIES,
            num_kv_blocks=20,
            context_length=600,
            inter_token_target_s=target_s,
        )
    )
    return engine


def answer(engine: openvino_cb.OpenVinoEngine) -> tuple[list[int], int]:
    """Of a prompt longer than a small chunk; and the steps until its first token."""
    ids: list[int] = []
    steps = 0
    params = SamplingParams(max_tokens=12, temperature=0.0)
    engine.add(EngineRequest(RequestKey(1, 1), list(range(50, 250)), 0, params))
    while engine.has_work():
        steps += not ids
        for output in engine.step().outputs:
            ids += output.ids
    return ids, steps


def test_engine_made_for_a_short_step_computes_less_in_one_and_says_the_same() -> None:
    plain, short = loaded(0.0), loaded(1e-6)
    assert plain.capabilities.step_tokens == 512
    # in so small a cache one sequence runs beside what is measured
    assert short.capabilities.step_tokens == LEAST_CHUNK + 1
    assert short.capabilities.capacity == 25, "a quarter of a step is for prompts"
    ids, steps = answer(plain)
    short_ids, short_steps = answer(short)
    assert short_ids == ids
    assert (steps, short_steps) == (1, 7)
    assert loaded(60.0).capabilities.step_tokens == 512
