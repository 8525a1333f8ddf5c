"""How many tokens a step computes where a target for its time is set."""

import pytest

from refloat.engines.chunk import LEAST_CHUNK, Prefill, chunk_for, seats_beside
from refloat.engines.scripted import ScriptedEngine
from refloat.wire.messages import EngineSpec


@pytest.mark.parametrize(
    ("target_s", "chunk"),
    [(0.250, 210), (0.080, 40), (0.001, LEAST_CHUNK), (0.552, 512), (9.0, 512)],
)
def test_chunk_takes_as_long_as_the_target_says(target_s: float, chunk: int) -> None:
    small, large = Prefill(16, 0.056), Prefill(512, 0.552)
    assert chunk_for(target_s, small, large) == pytest.approx(chunk, abs=1)


def test_chunk_keeps_to_the_target_at_the_end_of_a_long_prompt() -> None:
    """Of an engine whose steps take 40 ms, 1 ms a token, and 1 µs a token for each that it looks on."""

    def step(tokens: int, context: int = 0) -> Prefill:
        seconds = 0.04 + tokens * (0.001 + (context + tokens / 2) * 1e-6)
        return Prefill(tokens, seconds, context)

    late = step(512, 1536)
    assert chunk_for(0.2, step(32), step(512), late, context=512) == pytest.approx(105, abs=1)
    assert chunk_for(0.2, step(32), step(512), late, context=4096) == pytest.approx(31, abs=1)
    chunk = chunk_for(0.4, step(32), step(512), late, context=4096)
    assert step(chunk, 4096 - chunk).seconds == pytest.approx(0.4, abs=0.01)


def test_chunk_is_as_large_as_if_nobody_looked_back_where_late_ones_took_no_longer() -> None:
    late = Prefill(512, 0.3, 1536)
    assert chunk_for(0.25, Prefill(16, 0.056), Prefill(512, 0.552), late, context=9000) == 210


@pytest.mark.parametrize(("tokens", "seats"), [(512, 384), (33, 25), (16, 12), (2, 2), (1, 1)])
def test_seats_leave_a_part_of_each_step_to_prompts(tokens: int, seats: int) -> None:
    assert seats_beside(tokens) == seats


def test_chunk_is_the_largest_where_more_tokens_take_no_more_time() -> None:
    assert chunk_for(0.01, Prefill(16, 0.02), Prefill(512, 0.02)) == 512


@pytest.mark.parametrize(("target_s", "tokens"), [(0.0, 512), (0.030, 200), (1.0, 512)])
def test_scripted_engine_keeps_to_the_target(target_s: float, tokens: int) -> None:
    engine = ScriptedEngine()
    options = {"step_s": 0.01, "prefill_s_per_1k": 0.1}
    engine.load(EngineSpec("scripted", "", options=options, inter_token_target_s=target_s))
    assert engine.capabilities.step_tokens == pytest.approx(tokens, abs=1)
