"""Answers held to a form by the real engine: always valid, whatever the model says, whoever asks for
what beside it, and wherever their worker is killed."""

import json
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from refloat.testing.client import Answer, Client
from refloat.testing.exact import EXACT_PROPERTIES
from refloat.testing.harness import Server
from refloat.testing.outcome import COMPLETIONS, Outcome, ask
from tests.engine.resume.servers import client_of, cut, cuts, model, prompt_of, same, serving

pytestmark = [pytest.mark.engine, pytest.mark.process, pytest.mark.timeout(240)]

CHAT = "/v1/chat/completions"
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 16},
        "age": {"type": "integer", "minimum": 0, "maximum": 150},
        "tags": {"type": "array", "items": {"type": "string", "maxLength": 6}, "maxItems": 3},
    },
    "required": ["name", "age", "tags"],
    "additionalProperties": False,
}
FORMAT = {"type": "json_schema", "json_schema": {"name": "person", "schema": SCHEMA}}
SEEDS = 8
_TRIES = 4
#: Marks of prompts whose worker is killed, and before which of their tokens.
KILLED = {0: (1, 9), 1: (4, 16), 2: (10,)}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    plan = [cut(mark, at) for mark, places in KILLED.items() for at in places]
    models = [model("tiny", "tiny-llm", plan, plugin_config=EXACT_PROPERTIES)]
    with serving(models, tmp_path_factory.mktemp("home")) as started:
        yield started


def chat(client: Client, **fields: Any) -> Answer:
    body = {
        "model": "tiny",
        "messages": [{"role": "user", "content": "Who?"}],
        "max_tokens": 200,
        "chat_template_kwargs": {"enable_thinking": False},
    }
    return client.post(CHAT, {**body, **fields})


def complete(client: Client, mark: int, name: str = "tiny", **fields: Any) -> Outcome:
    body = {"model": name, "prompt": prompt_of(mark), "max_tokens": 200, "guided_json": SCHEMA}
    return ask(client, {**body, **fields}, COMPLETIONS)


def check(text: str) -> None:
    """It is what the schema says."""
    value = json.loads(text)
    assert list(value) == ["name", "age", "tags"]
    assert isinstance(value["name"], str)
    assert len(value["name"]) <= 16
    assert type(value["age"]) is int
    assert 0 <= value["age"] <= 150
    assert len(value["tags"]) <= 3
    assert all(isinstance(tag, str) and len(tag) <= 6 for tag in value["tags"])


def check_whole(outcome: Outcome) -> None:
    assert outcome.is_right, outcome.describe()
    assert outcome.finish_reasons == {0: "stop"}
    check(outcome.texts[0])


def test_schema_is_kept_whatever_is_drawn(server: Server) -> None:
    answer = chat(client_of(server), response_format=FORMAT, n=SEEDS, temperature=1.5, seed=1)
    assert answer.status == 200, answer.body
    choices = answer.json()["choices"]
    assert [choice["finish_reason"] for choice in choices] == ["stop"] * SEEDS
    texts = [choice["message"]["content"] for choice in choices]
    assert len(set(texts)) > 1
    for text in texts:
        check(text)


@pytest.mark.parametrize(
    ("fields", "pattern"),
    [
        ({"guided_choice": ["yes", "no"]}, "yes|no"),
        ({"guided_regex": "[0-9]{3}-[a-z]{2}"}, "[0-9]{3}-[a-z]{2}"),
        ({"guided_grammar": 'root ::= "<" [xy] ">"'}, "<x>|<y>"),
        ({"structured_outputs": {"json": {"const": "ä"}}}, r'"(ä|\\u00e4)"'),
        ({"response_format": {"type": "text"}, "max_tokens": 3}, "(?s).+"),
    ],
)
def test_every_form_is_kept(server: Server, fields: dict[str, Any], pattern: str) -> None:
    answer = chat(client_of(server), **fields)
    assert answer.status == 200, answer.body
    assert re.fullmatch(pattern, answer.text), answer.text


def test_other_dialects_keep_to_a_schema_too(server: Server) -> None:
    client = client_of(server)
    form = {"type": "json_schema", "name": "person", "schema": SCHEMA}
    said = {
        "model": "tiny",
        "input": "Who?",
        "max_output_tokens": 200,
        "text": {"format": form},
        "reasoning": {"effort": "none"},
    }
    response = client.post("/v1/responses", said)
    assert response.status == 200, response.body
    check(response.json()["output"][-1]["content"][0]["text"])
    said = {
        "model": "tiny",
        "messages": [{"role": "user", "content": "Who?"}],
        "max_tokens": 200,
        "thinking": {"type": "disabled"},
    }
    message = client.post("/v1/messages", {**said, "output_config": {"format": form}})
    assert message.status == 200, message.body
    assert message.json()["stop_reason"] == "end_turn"
    check(message.json()["content"][0]["text"])


TOOLS: list[dict[str, Any]] = [
    {"type": "function", "function": {"name": "enter", "parameters": SCHEMA}},
    {"type": "function", "function": {"name": "leave", "description": 'says "bye" to {all}'}},
]
ONLY_LEAVE = {"type": "function", "function": {"name": "leave"}}


def check_calls(message: dict[str, Any], *, names: set[str], single: bool) -> None:
    """Calls and nothing else, of these functions, with arguments as declared."""
    calls = message["tool_calls"]
    assert message["content"] in (None, "")
    assert len({call["id"] for call in calls}) == len(calls) >= 1
    assert not single or len(calls) == 1
    for call in calls:
        function = call["function"]
        assert function["name"] in names
        if function["name"] == "enter":
            check(function["arguments"])
        else:
            assert json.loads(function["arguments"]) == {}


@pytest.mark.parametrize("single", [False, True])
def test_required_call_is_made_whatever_is_drawn(server: Server, single: bool) -> None:
    fields = {"tool_choice": "required", "parallel_tool_calls": not single}
    tools, n = (TOOLS, SEEDS) if single else (TOOLS[1:], 2)  # it would not stop calling
    answer = chat(client_of(server), tools=tools, n=n, seed=2, max_tokens=900, **fields)
    assert answer.status == 200, answer.body
    for choice in answer.json()["choices"]:
        assert choice["finish_reason"] == "tool_calls"
        check_calls(choice["message"], names={"enter", "leave"}, single=single)


def test_named_call_is_the_one_that_is_made_in_every_dialect(server: Server) -> None:
    client = client_of(server)
    answer = chat(client, tools=TOOLS, tool_choice=ONLY_LEAVE)
    check_calls(answer.json()["choices"][0]["message"], names={"leave"}, single=True)
    plain: list[Any] = [{"name": "leave", "input_schema": {"type": "object", "properties": {}}}]
    said: dict[str, Any] = {"model": "tiny", "messages": [{"role": "user", "content": "Bye"}]}
    said |= {"max_tokens": 200, "thinking": {"type": "disabled"}, "tools": plain}
    one = {"disable_parallel_tool_use": True}
    for choice in ({"type": "any", **one}, {"type": "tool", "name": "leave"}):
        message = client.post("/v1/messages", {**said, "tool_choice": choice}).json()
        assert message["stop_reason"] == "tool_use", message
        assert message["content"][0]["name"] == "leave"
    flat: list[Any] = [{"type": "function", "name": "leave", "parameters": {"properties": {}}}]
    said = {"model": "tiny", "input": "Bye", "reasoning": {"effort": "none"}, "tools": flat,
            "parallel_tool_calls": False}  # fmt: skip
    for choice in ("required", {"type": "function", "name": "leave"}):
        response = client.post("/v1/responses", {**said, "tool_choice": choice}).json()
        assert [item.get("name") for item in response["output"]] == ["leave"], response


def test_answer_that_is_cut_says_so_and_is_the_beginning_of_a_valid_one(server: Server) -> None:
    fields = {"response_format": FORMAT, "temperature": 0}
    whole, cut_off = (chat(client_of(server), **fields, **more) for more in ({}, {"max_tokens": 7}))
    assert cut_off.json()["choices"][0]["finish_reason"] == "length"
    assert whole.text.startswith(cut_off.text)
    check(whole.text)


HOSTILE: list[dict[str, Any]] = [
    {"guided_regex": "(" * 20_000 + ")" * 20_000},
    {"guided_regex": "|".join(f"w{n}[a-z]{{1,50}}" for n in range(5000))},
    {"guided_regex": "^*x$"},
    {"guided_regex": "^{3}"},
    {"guided_regex": "(?<=a)b"},
    {"guided_regex": "[abc"},
    {"guided_json": '{"a":' * 20_000 + "1" + "}" * 20_000},
    {"guided_grammar": "root ::= " + "|".join(f'[^a]{{0,{n}}}"x{n}"' for n in range(60, 260))},
    {"guided_grammar": "root ::= (((((("},
    {"response_format": {"type": "json_schema", "json_schema": {"schema": {"not": {}}}}},
]


@pytest.mark.case(26, 27, 121)
def test_hostile_grammars_are_refused_and_hurt_nobody(server: Server) -> None:
    client = client_of(server)
    worker = server.worker_pid("tiny")
    with ThreadPoolExecutor(2) as pool:
        neighbours = [
            pool.submit(complete, client, 50 + n, guided_json=None, ignore_eos=True, max_tokens=400)
            for n in range(2)
        ]
        for fields in HOSTILE:
            answer = chat(client, **fields)
            for _ in range(_TRIES):  # 503: this machine was too busy to find out
                if answer.status == 503:
                    answer = chat(client, **fields)
            assert answer.status == 400, (str(fields)[:80], answer.body)
            error = answer.json()["error"]
            assert error["type"] == "invalid_request_error"
            assert error["param"].startswith(next(iter(fields)))
        for neighbour in neighbours:
            assert neighbour.result().is_right, neighbour.result().describe()
    assert server.worker_pid("tiny") == worker
    check(chat(client, response_format=FORMAT).text)


@pytest.mark.parametrize("mark", KILLED)
def test_answer_whose_worker_is_killed_is_valid(server: Server, mark: int) -> None:
    """And, if nothing is drawn, the same as that of the next who asks, whom nothing happens to."""
    fields: dict[str, Any] = {"temperature": 0 if mark else 1, "seed": mark}
    outcome = complete(client_of(server), mark, **fields)
    check_whole(outcome)
    assert cuts(server, outcome.request_id) == list(KILLED[mark])
    if mark:
        same(outcome, complete(client_of(server), mark, **fields))
