"""What a resumption promises, parameter by parameter, on real engines: the rows of docs/RESUME.md."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from refloat.testing.client import Client
from refloat.testing.exact import EXACT_PROPERTIES
from refloat.testing.harness import Server
from refloat.testing.outcome import CHAT, Outcome, ask
from tests.engine.resume.proofs import AT, ELSEWHERE, PROOFS, Proof
from tests.engine.resume.servers import TOKENS, client_of, complete, cut, cuts, model, same, serving

pytestmark = [pytest.mark.engine, pytest.mark.process, pytest.mark.timeout(180)]

ROOT = Path(__file__).parents[3]
STOP_MARK = 60
WEDGE_MARKS = {"wedge": 61, "wedge_grammar": 62}
CHARACTERS = "日本 🚢🌊 Ä√"


#: Its tokens are 14, and each of these cuts a character's bytes in two.
INSIDE_CHARACTERS = (1, 5, 8, 12)


def plan_for(name: str) -> list[dict[str, Any]]:
    """For each proof on a model a cut, and, if it has one choice, the same for the next request of
    that proof: the first one's resumption comes by the same place, and is let pass."""
    return [
        {**cut(mark, AT), "skip": skip}
        for mark, proof in enumerate(PROOFS)
        if proof.model == name
        for skip in range(1 if proof.choices > 1 else 2)
    ]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    inside = [{"at": "token", "token": at, "kind": "kill"} for at in INSIDE_CHARACTERS]
    wedges = [{**cut(mark, AT), "kind": kind} for kind, mark in WEDGE_MARKS.items()]
    models = [
        model("calm", "tiny-llm", plugin_config=EXACT_PROPERTIES),
        model(
            "exact",
            "tiny-llm",
            [*plan_for("exact"), cut(STOP_MARK, AT), *wedges],
            plugin_config=EXACT_PROPERTIES,
        ),
        model("usual", "tiny-llm", plan_for("usual")),
        model("hybrid", "tiny-hybrid", plan_for("hybrid"), plugin_config=EXACT_PROPERTIES),
        model("characters", "tiny-scripted", inside, plugin_config=EXACT_PROPERTIES),
    ]
    with serving(models, tmp_path_factory.mktemp("home")) as started:
        yield started


@pytest.mark.parametrize("proof", PROOFS, ids=lambda proof: proof.what)
def test_resumption_is_as_equal_as_the_table_says(server: Server, proof: Proof) -> None:
    client, mark = client_of(server), PROOFS.index(proof)
    first = complete(client, proof.model, mark, **proof.fields)
    seam = cuts(server, first.request_id)
    assert len(seam) == proof.choices
    assert max(seam) == AT  # choices begin one after another
    assert first.is_right, first.describe()
    if proof.exactness == "exact":
        same(first, complete(client, "calm", mark, **proof.fields))
    else:
        check_seam(client, proof, mark, first, min(seam))
    if (
        proof.exactness == "continuation" and proof.choices == 1
    ):  # else other choices are cut elsewhere
        same(first, complete(client, proof.model, mark, **proof.fields))


def check_seam(client: Client, proof: Proof, mark: int, whole: Outcome, seam: int) -> None:
    """It begins as the undisturbed one does, and has as many tokens as were asked for."""
    assert whole.usage is not None
    assert whole.usage["completion_tokens"] == TOKENS * proof.choices
    if "best_of" not in proof.fields:  # which one is chosen depends on the continuations
        head = complete(client, "calm" if proof.model == "exact" else proof.model, mark,
                        **{**proof.fields, "max_tokens": seam})  # fmt: skip
        for index, text in head.texts.items():
            assert whole.texts[index].startswith(text.rstrip("\ufffd"))


def test_logprobs_are_those_of_the_undisturbed_run(server: Server) -> None:
    body = {"prompt": [5, 6, 7, 8], "max_tokens": 30, "temperature": 0, "logprobs": 1}
    client = client_of(server)
    found: list[list[float]] = []
    for name in ("calm", "exact"):
        answer = client.post("/v1/completions", {"model": name, "ignore_eos": True, **body})
        found.append(answer.json()["choices"][0]["logprobs"]["token_logprobs"])
    assert found[0] == pytest.approx(found[1], abs=1e-4)


def test_stop_string_across_the_seam(server: Server) -> None:
    client = client_of(server)
    head = complete(client, "calm", STOP_MARK, max_tokens=AT).text.rstrip("\ufffd")
    text = complete(client, "calm", STOP_MARK).text
    stop = text[len(head) - 2 : len(head) + 3]
    assert text.index(stop) == len(head) - 2
    killed = complete(client, "exact", STOP_MARK, stop=stop)
    same(killed, complete(client, "calm", STOP_MARK, stop=stop))
    assert killed.text == text[: len(head) - 2]
    assert killed.finish_reasons == {0: "stop"}
    assert cuts(server, killed.request_id) == [AT]


def test_character_cut_at_the_seam(server: Server) -> None:
    body = {
        "model": "characters",
        "messages": [{"role": "user", "content": f"Repeat:\n{CHARACTERS}"}],
        "chat_template_kwargs": {"enable_thinking": False},
        "temperature": 0,
    }
    killed = ask(client_of(server), {**body, "stream": True}, CHAT)
    assert killed.is_right, killed.describe()
    assert killed.text == CHARACTERS
    assert cuts(server, killed.request_id) == list(INSIDE_CHARACTERS)


@pytest.mark.parametrize("kind", ["wedge", "wedge_grammar"])
def test_engine_that_is_wedged_for_good_is_replaced_and_the_answer_is_whole(
    server: Server, kind: str
) -> None:
    """Not played: the engine itself was given one request id twice, or a grammar that it cannot
    compile, and raises for ever."""
    client = client_of(server)
    before = client.metric("refloat_worker_restarts_total", model="exact", cause="step_fault")
    wedged = complete(client, "exact", WEDGE_MARKS[kind])
    same(wedged, complete(client, "calm", WEDGE_MARKS[kind]))
    assert cuts(server, wedged.request_id) == [AT]
    after = client.metric("refloat_worker_restarts_total", model="exact", cause="step_fault")
    assert after == before + 1
    lost = [e for e in server.events("child_lost") if e["cause"] == "step_fault"]
    assert "fault plan" not in lost[-1]["reason"]
    assert complete(client, "exact", WEDGE_MARKS[kind]).is_right


def test_document_lists_the_proofs() -> None:
    text = (ROOT / "docs" / "RESUME.md").read_text()
    table = text[text.index("<!-- proofs -->") : text.index("<!-- end -->")]
    rows = dict(re.findall(r"^\| (.+?) \| (exact|continuation|replay only) \|", table, re.M))
    known = {proof.what: proof.exactness for proof in PROOFS}
    assert rows == known | {what: exactness for what, (exactness, _) in ELSEWHERE.items()}


def test_proofs_elsewhere_exist() -> None:
    tests = "".join(path.read_text() for path in (ROOT / "tests").rglob("test_*.py"))
    for _, name in ELSEWHERE.values():
        assert f"def {name}" in tests
