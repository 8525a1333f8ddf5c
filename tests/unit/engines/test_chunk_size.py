"""How many tokens a step computes where a target for its time is set."""

import pytest

from refloat.engines.chunk import LEAST_CHUNK, Prefill, chunk_for
from refloat.engines.scripted import ScriptedEngine
from refloat.wire.messages import EngineSpec


@pytest.mark.parametrize(
    ("target_s", "chunk"),
    [(0.250, 210), (0.060, 20), (0.001, LEAST_CHUNK), (0.552, 512), (9.0, 512)],
)
def test_chunk_takes_as_long_as_the_target_says(target_s: float, chunk: int) -> None:
    small, large = Prefill(16, 0.056), Prefill(512, 0.552)
    assert chunk_for(target_s, small, large) == pytest.approx(chunk, abs=1)


def test_chunk_is_the_largest_where_more_tokens_take_no_more_time() -> None:
    assert chunk_for(0.01, Prefill(16, 0.02), Prefill(512, 0.02)) == 512


@pytest.mark.parametrize(("target_s", "tokens"), [(0.0, 512), (0.030, 200), (1.0, 512)])
def test_scripted_engine_keeps_to_the_target(target_s: float, tokens: int) -> None:
    engine = ScriptedEngine()
    options = {"step_s": 0.01, "prefill_s_per_1k": 0.1}
    engine.load(EngineSpec("scripted", "", options=options, inter_token_target_s=target_s))
    assert engine.capabilities.step_tokens == pytest.approx(tokens, abs=1)
