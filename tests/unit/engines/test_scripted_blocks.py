"""What the scripted engine says of its blocks."""

from refloat.engines.base import EngineRequest, RequestKey
from refloat.engines.scripted import ScriptedEngine
from refloat.wire.messages import EngineSpec, SamplingParams


def test_blocks_in_use_are_those_of_the_step_and_not_what_is_left_after_it() -> None:
    engine = ScriptedEngine()
    engine.load(EngineSpec("scripted", "", num_kv_blocks=8))
    params = SamplingParams(max_tokens=1, temperature=0.0)
    engine.add(EngineRequest(RequestKey(1, 1), [65] * 40, 0, params))
    step = engine.step()
    assert step.outputs[0].ended == "length"
    assert step.used_blocks == 3
    assert not engine.has_work()
