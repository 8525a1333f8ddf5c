"""Limits of tokens: advertised, counted and enforced are one number."""

from collections.abc import Callable
from typing import Any

import pytest

from refloat.testing.client import Answer, Client
from refloat.testing.harness import Server

pytestmark = pytest.mark.process

CHAT = "/v1/chat/completions"
ErrorOf = Callable[[Answer], dict[str, Any]]


def filler(client: Client, model: str, tokens: int) -> str:
    """A text of at least so many tokens."""
    body = {"model": model, "prompt": "lorem ipsum " * 100}
    each = client.post("/v1/tokenize", body).json()["count"] / 100
    return "lorem ipsum " * (int(tokens / each) + 100)


SECRET = {"role": "system", "content": "The secret is 4711."}


def too_long_chats(text: str) -> list[list[dict[str, Any]]]:
    """A secret before the filler; and an agent's history whose only user turn is the oldest."""
    call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    return [
        [SECRET, {"role": "user", "content": text}, {"role": "user", "content": "The secret?"}],
        [
            {"role": "user", "content": "Do it."},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c1", "content": text},
        ],
    ]


def check_nothing_is_cut(server: Server, model: str, error_of: ErrorOf) -> None:
    client = server.client()
    limit = client.get(f"/v1/models/{model}").json()["max_model_len"]
    for messages in too_long_chats(filler(client, model, 2 * limit)):
        count = client.post("/v1/tokenize", {"model": model, "messages": messages}).json()["count"]
        assert count > 2 * limit
        for stream in (False, True):
            body = {"model": model, "messages": messages, "stream": stream}
            answer = client.post(CHAT, body)
            assert answer.status == 400
            error = error_of(answer)
            assert error["code"] == "context_length_exceeded"
            assert str(count) in error["message"]
            assert str(limit) in error["message"]
    messages = [SECRET, {"role": "user", "content": "lorem ipsum " * 20}]
    count = client.post("/v1/tokenize", {"model": model, "messages": messages}).json()["count"]
    answer = client.post(CHAT, {"model": model, "messages": messages, "max_tokens": 1})
    assert answer.json()["usage"]["prompt_tokens"] == count


@pytest.mark.case(111)
def test_prompt_that_is_too_long_is_refused_and_never_cut(
    scripted: Server, error_of: ErrorOf
) -> None:
    check_nothing_is_cut(scripted, "plain", error_of)


@pytest.mark.engine
@pytest.mark.case(111)
@pytest.mark.parametrize("model", ["tiny-llm", "tiny-scripted"])
def test_prompt_that_is_too_long_for_a_real_model_is_refused_and_never_cut(
    engine: Server, error_of: ErrorOf, model: str
) -> None:
    check_nothing_is_cut(engine, model, error_of)


@pytest.mark.case(112)
@pytest.mark.parametrize(
    ("fields", "tokens"),
    [
        ({"max_tokens": 5}, 5),
        ({"max_completion_tokens": 5}, 5),
        ({"max_tokens": 9, "max_completion_tokens": 5}, 5),
        ({"max_tokens": 5, "max_completion_tokens": 9}, 9),
        ({"max_tokens": 1}, 1),
    ],
)
def test_token_limit_is_kept(scripted: Server, fields: dict[str, int], tokens: int) -> None:
    client = scripted.client()
    answer = client.chat("Loop", model="plain", **fields).json()
    assert answer["usage"]["completion_tokens"] == tokens
    assert answer["choices"][0]["finish_reason"] == "length"
    with client.chat_stream("Loop", model="plain", **fields) as stream:
        whole = stream.transcript()
    assert whole.finish_reasons() == [(0, "length")]
    assert whole.text() == answer["choices"][0]["message"]["content"]


@pytest.mark.engine
@pytest.mark.case(112)
@pytest.mark.parametrize("model", ["tiny-llm", "tiny-hybrid"])
@pytest.mark.parametrize("tokens", [1, 2, 5])
def test_token_limit_is_kept_by_a_real_engine(engine: Server, model: str, tokens: int) -> None:
    client = engine.client()
    answer = client.chat("Hi", model=model, max_tokens=tokens, ignore_eos=True).json()
    assert answer["usage"]["completion_tokens"] == tokens
    assert answer["choices"][0]["finish_reason"] == "length"


@pytest.mark.case(112)
@pytest.mark.parametrize("field", ["max_tokens", "max_completion_tokens"])
@pytest.mark.parametrize("value", [0, -1])
def test_token_limit_below_one_is_refused(
    scripted: Server, error_of: ErrorOf, field: str, value: int
) -> None:
    answer = scripted.client().chat("Hi", model="plain", **{field: value})
    assert answer.status == 400
    assert error_of(answer)["param"] == field


def check_advertised_is_enforced(server: Server, model: str, error_of: ErrorOf) -> None:
    """Prompts one token below, at, and beyond what leaves room for one token of answer."""
    client = server.client()
    limit = client.get(f"/v1/models/{model}").json()["max_model_len"]
    pid = server.worker_pid(model)
    for length, status in [(limit - 2, 200), (limit - 1, 200), (limit, 400), (limit + 1, 400)]:
        body = {"model": model, "prompt": [40] * length, "max_tokens": 1}
        answer = client.post("/v1/completions", body)
        assert answer.status == status, (length, limit, answer.body)
        if status == 400:
            assert error_of(answer)["code"] == "context_length_exceeded"
        else:
            assert answer.json()["usage"]["prompt_tokens"] == length
    assert server.worker_pid(model) == pid


@pytest.mark.case(113)
@pytest.mark.parametrize("model", ["plain", "small"])
def test_advertised_context_is_what_is_enforced(
    scripted: Server, error_of: ErrorOf, model: str
) -> None:
    check_advertised_is_enforced(scripted, model, error_of)
    if model == "small":
        limit = scripted.client().get("/v1/models/small").json()["max_model_len"]
        assert limit <= 256


@pytest.mark.engine
@pytest.mark.case(113)
@pytest.mark.parametrize("model", ["tiny-llm", "tiny-scripted"])
def test_advertised_context_of_a_real_cache_is_what_is_enforced(
    engine: Server, error_of: ErrorOf, model: str
) -> None:
    check_advertised_is_enforced(engine, model, error_of)
