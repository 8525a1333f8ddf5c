"""The long versions: a guided answer killed at every token index, under exact and default numerics, and
the default model's answers by the hundred."""

import json
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from refloat.testing.exact import EXACT_PROPERTIES
from refloat.testing.outcome import ask
from refloat.testing.patience import eventually
from tests.engine.guided.test_structured_output import CHAT, FORMAT, check, complete
from tests.engine.resume.servers import client_of, cut, cuts, model, serving

pytestmark = [pytest.mark.engine, pytest.mark.process, pytest.mark.soak, pytest.mark.timeout(3600)]

#: Token indices at which an answer is killed; few answers of this schema are longer.
INDICES = 40
ANSWERS = 200


@pytest.mark.parametrize("temperature", [0, 1])
@pytest.mark.parametrize("numerics", ["exact", "default"])
def test_share_of_answers_that_survive_a_kill_at_each_index(
    tmp_path: Path, numerics: str, temperature: int
) -> None:
    """One answer for each index, each of another prompt. All have to be valid or to end with the typed
    error; how many are valid, and how many equal the undisturbed answer, is printed."""
    more = {"plugin_config": EXACT_PROPERTIES} if numerics == "exact" else {}
    models = [
        model("calm", "tiny-llm", **more),
        model("frail", "tiny-llm", [cut(at, at) for at in range(1, INDICES)], **more),
    ]
    killed = valid = equal = 0
    with serving(models, tmp_path) as two:
        for at in range(1, INDICES):
            fields = {"temperature": temperature, "seed": at}
            outcome = complete(client_of(two), at, "frail", **fields)
            if cuts(two, outcome.request_id) == [] and outcome.is_right:
                continue  # it was shorter than that
            killed += 1
            if outcome.error is None:
                check(outcome.texts[0])
                valid += 1
                equal += outcome.texts == complete(client_of(two), at, "calm", **fields).texts
            else:
                assert outcome.status == 500, outcome.describe()
                assert outcome.error["resumable"] is False, outcome.describe()
    sys.stdout.write(
        f"\n{numerics} numerics, temperature {temperature}: {killed} killed, {valid} valid, "
        f"{equal} equal to the undisturbed answer\n"
    )
    assert killed > INDICES // 3
    assert valid >= 0.95 * killed
    if numerics == "exact" and temperature == 0:
        assert equal >= 0.9 * valid


@pytest.mark.smollm2
def test_default_model_keeps_to_a_schema_two_hundred_times(
    smollm2_folder: Path, tmp_path: Path
) -> None:
    settings: dict[str, Any] = {"model": str(smollm2_folder), "name": "smollm2"}
    asked = [
        {
            "model": "smollm2",
            "messages": [{"role": "user", "content": f"Invent a person. Number {n}."}],
            "response_format": FORMAT,
            "max_tokens": 200,
            "temperature": 0 if n % 4 == 0 else 1,
            "seed": n,
        }
        for n in range(ANSWERS)
    ]
    with serving([settings], tmp_path) as server, ThreadPoolExecutor(16) as pool:
        client = server.client(timeout_s=600)
        eventually(lambda: ask(client, asked[0], CHAT).is_right, deadline_s=600)
        outcomes = list(pool.map(lambda body: ask(client, body, CHAT), asked))
    for outcome in outcomes:
        assert outcome.is_right, outcome.describe()
        assert outcome.finish_reasons == {0: "stop"}, outcome.describe()
        check(outcome.texts[0])
    sys.stdout.write(f"\n{len(outcomes)} valid; e.g. {json.loads(outcomes[0].texts[0])}\n")
