"""Under default properties a resumed text is what an undisturbed engine says to the same ids."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from refloat.engines.base import EngineRequest, RequestKey
from refloat.generation.seeds import resume_seed
from refloat.testing.harness import Server
from refloat.wire.messages import EngineSpec, SamplingParams
from tests.engine.resume.servers import (
    DATA,
    STEP_TOKENS,
    TOKENS,
    complete,
    cut,
    cuts,
    model,
    prompt_of,
)
from tests.late_import import late_import

if TYPE_CHECKING:
    from refloat.engines import openvino_cb
else:
    openvino_cb = late_import("refloat.engines.openvino_cb")

pytestmark = [pytest.mark.engine, pytest.mark.process, pytest.mark.timeout(180)]

PLACES = (3, 20, 50)
#: Every one that the model's own files would else decide.
SAMPLING = {"temperature": 1.0, "top_p": 0.9, "top_k": 50, "min_p": 0.0}
SEED = 11


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    plan = [cut(mark, at) for mark, at in enumerate(PLACES * 2)]
    env = {"REFLOAT_HOME": str(tmp_path_factory.mktemp("home"))}
    with Server.start(config={"models": [model("m", "tiny-llm", plan)]}, env=env) as started:
        yield started


def ids_from(prompt: list[int], emitted: list[int], count: int, *, seed: int | None) -> list[int]:
    """What a fresh engine says to prompt + emitted, until it is `count` tokens with the emitted."""
    params: dict[str, Any] = {"temperature": 0.0} if seed is None else {**SAMPLING, "seed": seed}
    engine = openvino_cb.OpenVinoEngine()
    engine.load(
        EngineSpec(
            "openvino_cb", str(DATA / "tiny-llm"), num_kv_blocks=128,
            max_num_batched_tokens=STEP_TOKENS,
        )
    )  # fmt: skip
    wanted = SamplingParams(max_tokens=count, **params)
    engine.add(EngineRequest(RequestKey(1, 1), prompt + emitted, len(emitted), wanted))
    ids = list(emitted)
    while engine.has_work():
        for output in engine.step().outputs:
            ids += output.ids
    return ids


@pytest.mark.parametrize("sampled", [False, True], ids=["greedy", "sampled"])
@pytest.mark.parametrize("at", PLACES)
def test_resumed_text_is_that_of_an_engine_given_the_same_ids(
    server: Server, at: int, sampled: bool
) -> None:
    client = server.client()
    mark = PLACES.index(at) + (len(PLACES) if sampled else 0)
    fields = {**SAMPLING, "seed": SEED} if sampled else {}
    resumed = complete(client, "m", mark, **fields)
    assert resumed.is_right, resumed.describe()
    assert cuts(server, resumed.request_id) == [at]
    prompt = prompt_of(mark)
    emitted = ids_from(prompt, [], at, seed=SEED if sampled else None)
    ids = ids_from(prompt, emitted, TOKENS, seed=resume_seed(SEED, at) if sampled else None)
    assert len(ids) == TOKENS
    body = {"model": "m", "tokens": ids, "skip_special_tokens": True}
    answer = client.post("/v1/detokenize", body)
    assert answer.status == 200, answer.body
    assert resumed.text == json.loads(answer.body)["prompt"]
