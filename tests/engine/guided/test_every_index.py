"""The long versions: a guided answer killed at every token index, under exact and default numerics, and
the default model's answers by the hundred."""

import sys
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from refloat.testing.client import Client
from refloat.testing.exact import EXACT_PROPERTIES
from refloat.testing.patience import eventually
from tests.engine.guided.test_structured_output import (
    CHAT,
    FORMAT,
    TOOLS,
    check,
    check_calls,
    complete,
)
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
    more: dict[str, Any] = {}
    if numerics == "exact":
        more = {"plugin_config": EXACT_PROPERTIES}
    models = [
        model("calm", "tiny-llm", **more),
        model("frail", "tiny-llm", [cut(at, at) for at in range(1, INDICES)], **more),
    ]
    killed = valid = equal = 0
    with serving(models, tmp_path) as two:
        for at in range(1, INDICES):
            fields: dict[str, Any] = {"temperature": temperature, "seed": at}
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
def test_default_model_keeps_to_a_form_two_hundred_times(
    smollm2_folder: Path, tmp_path: Path
) -> None:
    """A schema, then a call of one of two functions, of which its template does not tell it; greedy
    and sampled."""
    settings: dict[str, Any] = {"model": str(smollm2_folder), "name": "smollm2"}
    settings["tool_parser"] = "hermes"
    calls = {"tools": TOOLS, "tool_choice": "required", "parallel_tool_calls": False}
    forms: list[dict[str, Any]] = [{"response_format": FORMAT}, calls]
    asked = [
        {
            "model": "smollm2",
            "messages": [{"role": "user", "content": f"A person enters. Number {n}."}],
            "max_tokens": 300,
            "temperature": 0 if n % 4 == 0 else 1,
            "seed": n,
            **form,
        }
        for form in forms
        for n in range(ANSWERS)
    ]
    with serving([settings], tmp_path) as server, ThreadPoolExecutor(16) as pool:
        client = server.client(timeout_s=600)
        for body in (asked[0], asked[-1]):
            eventually(partial(_is_served, client, body), deadline_s=600)
        answers = list(pool.map(partial(client.post, CHAT), asked))
    messages: list[dict[str, Any]] = []
    for answer in answers:
        assert answer.status == 200, answer.body
        [choice] = answer.json()["choices"]
        assert choice["finish_reason"] in ("stop", "tool_calls"), choice
        messages.append(choice["message"])
    for message in messages[:ANSWERS]:
        check(message["content"])
    for message in messages[ANSWERS:]:
        check_calls(message, names={"enter", "leave"}, single=True)
    sys.stdout.write(
        f"\n{len(messages)} of {len(asked)} valid, e.g. {messages[0]}, {messages[-1]}\n"
    )


def _is_served(client: Client, body: dict[str, Any]) -> bool:
    """On a busy machine the first grammar of a model may be long in coming."""
    answer = client.post(CHAT, body)
    assert answer.status in (200, 503), answer.body
    return answer.status == 200
