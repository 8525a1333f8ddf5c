"""The worker killed at every token index of a 64-token greedy generation, and in prefill: the text is
the undisturbed one's, on the real engine under the exact profile."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from refloat.testing.exact import EXACT_PROPERTIES
from refloat.testing.harness import Server
from tests.engine.resume.servers import (
    TOKENS,
    client_of,
    complete,
    cut,
    cuts,
    model,
    prompt_of,
    same,
    serving,
)

pytestmark = [pytest.mark.engine, pytest.mark.process]

GENERATIONS = 8
#: Those in `make test`, one a stream and one not; the others would take it two minutes more.
BRIEF = (1, 6)
PREFILL_MARK = 90


def indices(generation: int) -> range:
    """Where this one is cut: each eight tokens after the last, so that decode is resumed too."""
    return range(generation, TOKENS, GENERATIONS)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    plan = [cut(generation, at) for generation in range(GENERATIONS) for at in indices(generation)]
    in_prefill = {"at": "step", "kind": "kill", "skip": 2, "match_tokens": [1000 + PREFILL_MARK]}
    models = [
        model("calm", "tiny-llm", plugin_config=EXACT_PROPERTIES),
        model("frail", "tiny-llm", [*plan, in_prefill], plugin_config=EXACT_PROPERTIES),
    ]
    with serving(models, tmp_path_factory.mktemp("home")) as started:
        yield started


@pytest.mark.timeout(180)
@pytest.mark.parametrize(
    "generation",
    [
        pytest.param(generation, marks=[] if generation in BRIEF else pytest.mark.soak)
        for generation in range(GENERATIONS)
    ],
)
def test_text_is_identical_whichever_tokens_the_worker_was_killed_at(
    server: Server, generation: int
) -> None:
    client = client_of(server)
    stream = generation % 2 == 0
    undisturbed = complete(client, "calm", generation)
    killed = complete(client, "frail", generation, stream=stream,
                      **({"stream_options": {"include_usage": True}} if stream else {}))  # fmt: skip
    same(killed, undisturbed)
    assert undisturbed.usage is not None
    assert undisturbed.usage["completion_tokens"] == TOKENS
    assert cuts(server, killed.request_id) == list(indices(generation))


def test_text_is_identical_when_the_worker_was_killed_in_prefill(server: Server) -> None:
    client = client_of(server)
    prompt = prompt_of(PREFILL_MARK, 300)
    undisturbed = complete(client, "calm", PREFILL_MARK, prompt=prompt)
    killed = complete(client, "frail", PREFILL_MARK, prompt=prompt)
    same(killed, undisturbed)
    assert cuts(server, killed.request_id) == [0]


@pytest.mark.soak
def test_text_is_identical_for_each_index_alone(tmp_path: Path) -> None:
    models = [
        model("calm", "tiny-llm", plugin_config=EXACT_PROPERTIES),
        model(
            "frail",
            "tiny-llm",
            [cut(at, at) for at in range(TOKENS)],
            plugin_config=EXACT_PROPERTIES,
        ),
    ]
    with serving(models, tmp_path) as two:
        for at in range(TOKENS):
            killed = complete(client_of(two), "frail", at)
            same(killed, complete(client_of(two), "calm", at))
            assert cuts(two, killed.request_id) == [at]


@pytest.mark.soak
@pytest.mark.smollm2
def test_default_model_goes_on_with_the_same_text(smollm2_folder: Path, tmp_path: Path) -> None:
    """A sample, since a rebuild takes seconds. The fault used up, the same request is undisturbed. The
    id 20 is an ordinary one there."""
    at, mark = 21, 20
    fault = {"at": "token", "token": at, "kind": "kill", "match_tokens": [mark] * 3}
    frail = {
        "model": str(smollm2_folder),
        "name": "frail",
        "plugin_config": EXACT_PROPERTIES,
        "num_kv_blocks": 32,
        "faults": [fault],
    }
    prompt = [mark] * 3 + list(range(300, 340))
    with serving([frail], tmp_path) as server:
        killed, undisturbed = (
            complete(client_of(server), "frail", mark, prompt=prompt) for _ in range(2)
        )
        same(killed, undisturbed)
        assert cuts(server, killed.request_id) == [at]
        assert cuts(server, undisturbed.request_id) == []
