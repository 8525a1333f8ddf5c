"""How the scripted engine, like the real one, shares out a step's tokens."""

from collections import Counter

from refloat.engines.base import EngineRequest, RequestKey
from refloat.engines.scripted import ScriptedEngine
from refloat.wire.messages import EngineSpec, SamplingParams


def tokens_of(*, running: int | None, steps: int) -> Counter[int]:
    """What each of so many sequences gets (`None`: of as many as may run), and, as number 0, one that
    comes last with a prompt of 40 tokens, where a step computes 16."""
    engine = ScriptedEngine()
    rules = [{"match": "", "text": "again and again ", "finish": "length"}]
    engine.load(EngineSpec("scripted", "", options={"rules": rules}, max_num_batched_tokens=16))
    params = SamplingParams(max_tokens=1000, temperature=0.0)
    running = engine.capabilities.capacity - 1 if running is None else running
    for number in range(1, running + 1):
        engine.add(EngineRequest(RequestKey(number, 1), [65], 0, params))
    engine.step()
    engine.add(EngineRequest(RequestKey(0, 1), [65] * 40, 0, params))
    outputs = [output for _ in range(steps) for output in engine.step().outputs]
    return Counter(output.generation for output in outputs)


def test_as_many_as_may_run_all_get_a_token_a_step_and_a_prompt_gets_on() -> None:
    tokens = tokens_of(running=None, steps=10)
    assert len(tokens) == 12
    assert tokens.pop(0) == 3
    assert set(tokens.values()) == {10}


def test_more_than_a_steps_tokens_leave_the_last_without_any() -> None:
    assert set(tokens_of(running=20, steps=10)) == set(range(1, 17))
