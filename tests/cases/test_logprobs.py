"""Log-probabilities: numbers that strict JSON can carry, and bytes that are the answer's."""

import json
from collections.abc import Callable
from typing import Any, NoReturn

import pytest

from refloat.testing.client import Answer
from refloat.testing.harness import Server

pytestmark = pytest.mark.process

ErrorOf = Callable[[Answer], dict[str, Any]]


def strict(body: bytes) -> Any:
    """The JSON of a body in which NaN and infinities are errors."""

    def refuse(word: str) -> NoReturn:
        raise AssertionError(f"{word} is no JSON")

    return json.loads(body, parse_constant=refuse)


@pytest.mark.engine
@pytest.mark.case(114)
@pytest.mark.parametrize("fields", [{"temperature": 0}, {"temperature": 2, "top_k": 1}])
def test_logprobs_of_a_real_engine_are_strict_json(engine: Server, fields: dict[str, Any]) -> None:
    client = engine.client()
    every = {"model": "tiny-llm", "max_tokens": 40, "logprobs": True, "top_logprobs": 1, **fields}
    answer = client.chat("Hi", **every)
    assert answer.status == 200, answer.body
    tokens = strict(answer.body)["choices"][0]["logprobs"]["content"]
    assert all(token["logprob"] <= 0 for token in tokens)
    with client.chat_stream("Hi", **every) as stream:
        events = [strict(line.encode()) for line in stream.data() if line != "[DONE]"]
    streamed = [
        token
        for event in events
        for choice in event["choices"]
        if choice["logprobs"]
        for token in choice["logprobs"]["content"]
    ]
    assert [token["bytes"] for token in streamed] == [token["bytes"] for token in tokens]


@pytest.mark.case(114)
@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"logprobs": True, "top_logprobs": 20}, "top_logprobs"),
        ({"top_logprobs": 1}, "top_logprobs"),
        ({"logprobs": True, "logit_bias": {"1": -100}}, "logit_bias"),
    ],
)
def test_what_the_engine_cannot_tell_is_refused(
    scripted: Server, error_of: ErrorOf, fields: dict[str, Any], param: str
) -> None:
    answer = scripted.client().chat("Hi", model="plain", **fields)
    assert answer.status == 400
    assert error_of(answer)["param"] == param


def check_bytes(server: Server, model: str, prompt: str, **fields: Any) -> str:
    """Bytes of the tokens, joined, are the answer; returns it."""
    answer = server.client().chat(prompt, model=model, logprobs=True, **fields)
    assert answer.status == 200, answer.body
    choice = answer.json()["choices"][0]
    tokens = choice["logprobs"]["content"]
    joined = b"".join(bytes(token["bytes"]) for token in tokens)
    assert joined.decode("utf-8") == choice["message"]["content"]
    for token in tokens:
        assert token["token"] == bytes(token["bytes"]).decode("utf-8", "replace")
    return choice["message"]["content"]


@pytest.mark.case(116)
def test_bytes_of_tokens_inside_characters_join_to_the_answer(scripted: Server) -> None:
    text = "東京タワー 🚲 žluť"
    assert check_bytes(scripted, "plain", f"Repeat: {text}") == text


@pytest.mark.engine
@pytest.mark.case(116)
def test_bytes_of_real_tokens_join_to_the_answer(engine: Server) -> None:
    fields = {"chat_template_kwargs": {"enable_thinking": False}}
    prompt = "Say hello in many languages"
    assert max(check_bytes(engine, "tiny-scripted", prompt, **fields)) >= "一"
