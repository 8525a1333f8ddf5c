"""The scripted engine under a guide: it says what its script says, or refuses."""

import pytest

from refloat.engines.base import EngineRequest, RequestKey, RequestRefusedError
from refloat.engines.scripted import ScriptedEngine
from refloat.wire.guide import Guide
from refloat.wire.messages import EngineSpec, SamplingParams

EOS = 257
YES = Guide('root ::= "yes" | "yellow"')


def engine() -> ScriptedEngine:
    made = ScriptedEngine()
    rules = [{"match": "", "text": "yes", "chunk": 1}]
    made.load(EngineSpec("scripted", "", options={"rules": rules}))
    return made


def request(guide: Guide, *, max_tokens: int = 9, emitted: bytes = b"") -> EngineRequest:
    params = SamplingParams(max_tokens, stop_token_ids=(EOS,), guide=guide, temperature=0)
    return EngineRequest(RequestKey(1, 1), [*b"Hi", *emitted], len(emitted), params)


def test_scripted_engine_says_that_it_can_be_guided() -> None:
    assert engine().capabilities.guided


@pytest.mark.parametrize(
    ("guide", "max_tokens", "emitted"),
    [
        (YES, 9, b""),
        (YES, 2, b""),
        (Guide('root ::= "es"'), 9, b"y"),
        (Guide('root ::= ""'), 9, b"yes"),
    ],
)
def test_script_that_keeps_to_the_guide_is_said(
    guide: Guide, max_tokens: int, emitted: bytes
) -> None:
    made = engine()
    made.add(request(guide, max_tokens=max_tokens, emitted=emitted))
    assert made.has_work()


@pytest.mark.parametrize(
    ("guide", "max_tokens"), [(Guide('root ::= "no"'), 9), (Guide('root ::= "yesterday"'), 9),
                              (Guide('root ::= "no"'), 1)],
)  # fmt: skip
def test_script_that_does_not_is_refused(guide: Guide, max_tokens: int) -> None:
    made = engine()
    with pytest.raises(RequestRefusedError, match="keep to the guide"):
        made.add(request(guide, max_tokens=max_tokens))
    assert not made.has_work()
