"""Errors that name what the caller can change, and say nothing of the server's insides."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from refloat.api.schema.chat import ChatBody
from refloat.testing.client import Answer
from refloat.testing.harness import Server
from refloat.testing.patience import eventually

pytestmark = pytest.mark.process

CHAT = "/v1/chat/completions"
ErrorOf = Callable[[Answer], dict[str, Any]]

TOOL: dict[str, Any] = {
    "type": "function",
    "function": {"name": "f", "parameters": {"type": "object", "properties": {}}},
}


@pytest.mark.case(1)
@pytest.mark.parametrize(
    ("body", "headers", "status", "param", "code"),
    [
        (b"{", {}, 400, None, None),
        ({"model": "nobody", "messages": [{"role": "user", "content": "Hi"}]}, {}, 404, "model",
         "model_not_found"),
        ({"model": "plain", "messages": []}, {}, 400, "messages", None),
        ({"model": "plain", "messages": "x"}, {}, 400, "messages", None),
        (b"messages=x", {"Content_Type": "application/x-www-form-urlencoded"}, 415, None,
         "unsupported_media_type"),
    ],
)  # fmt: skip
def test_bad_request_gets_a_json_error(
    scripted: Server,
    error_of: ErrorOf,
    body: Any,
    headers: dict[str, str],
    status: int,
    param: str | None,
    code: str | None,
) -> None:
    answer = scripted.client().post(CHAT, body, **headers)
    error = error_of(answer)
    assert (answer.status, error["param"], error["code"]) == (status, param, code)
    assert error["type"] == "invalid_request_error"


@pytest.mark.case(4)
def test_models_are_listed_under_the_names_that_requests_use(
    scripted: Server, error_of: ErrorOf
) -> None:
    client = scripted.client()
    listing = client.get("/v1/models").json()
    assert listing["object"] == "list"
    for card in listing["data"]:
        assert card["object"] == "model"
        assert {"created", "owned_by"} <= set(card)
        assert client.get(f"/v1/models/{card['id']}").json() == card
        assert client.chat("Hi", model=card["id"]).json()["model"] == card["id"]
    missing = client.get("/v1/models/nope")
    assert missing.status == 404
    assert error_of(missing)["code"] == "model_not_found"


@pytest.mark.case(6)
def test_second_request_waits_for_the_only_seat_and_one_too_many_is_told_when_to_retry(
    scripted: Server, error_of: ErrorOf
) -> None:
    client = scripted.client()
    with (
        client.chat_stream("Count from 1 to 90", model="narrow", max_tokens=300) as first,
        ThreadPoolExecutor(2) as pool,
    ):
        waiting = [pool.submit(client.chat, "Hi", model="narrow") for _ in range(2)]
        eventually(
            lambda: client.metric("refloat_waiting", model="narrow") == 2, what="a full queue"
        )
        refused = client.chat("Hi", model="narrow")
        assert refused.status == 429
        assert int(refused.headers["retry-after"]) >= 1
        assert error_of(refused)["code"] == "queue_full"
        whole = first.transcript()
        assert [future.result().status for future in waiting] == [200, 200]
    assert whole.text() == " ".join(str(number) for number in range(1, 91))
    assert whole.done


@pytest.mark.engine
@pytest.mark.case(7)
def test_reasoning_effort_none_ends_thinking_and_others_do_not(engine: Server) -> None:
    client = engine.client()

    def thinks(effort: str | None) -> bool:
        answer = client.chat("Hi", model="tiny-scripted", reasoning_effort=effort)
        assert answer.text
        assert "<think>" not in answer.text
        return "reasoning_content" in answer.json()["choices"][0]["message"]

    assert not thinks("none")
    assert all(map(thinks, (None, "low", "high")))


@pytest.mark.case(7)
@pytest.mark.parametrize("effort", ["low", "high", "enormous"])
def test_reasoning_effort_that_the_template_ignores_is_refused(
    scripted: Server, error_of: ErrorOf, effort: str
) -> None:
    answer = scripted.client().chat("Hi", model="plain", reasoning_effort=effort)
    assert answer.status == 400
    assert error_of(answer)["param"] == "reasoning_effort"


@pytest.mark.case(9)
def test_context_overflow_has_its_code_the_limit_and_the_count(
    scripted: Server, error_of: ErrorOf
) -> None:
    client = scripted.client()
    messages = [{"role": "user", "content": "x" * 5000}]
    count = client.post("/v1/tokenize", {"model": "plain", "messages": messages}).json()["count"]
    answer = client.post(CHAT, {"model": "plain", "messages": messages})
    error = error_of(answer)
    assert answer.status == 400
    assert error["code"] == "context_length_exceeded"
    assert error["type"] == "invalid_request_error"
    assert "4096" in error["message"]
    assert str(count) in error["message"]


@pytest.mark.case(11)
def test_null_is_as_good_as_absent_for_every_optional_field(scripted: Server) -> None:
    client = scripted.client()
    fields = set(ChatBody.__struct_fields__) - {"model", "messages"}
    for names in [fields, *([name] for name in fields)]:
        body = {"model": "plain", "messages": [{"role": "user", "content": "Hi"}]}
        answer = client.post(CHAT, {**body, **dict.fromkeys(names)})
        assert answer.status == 200, (names, answer.body)
        assert answer.text == "Hello! How can I help you today?"


@pytest.mark.case(12)
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("choice", [None, "auto", "none", "required"])
def test_empty_tools_get_one_verdict_before_any_event(
    scripted: Server, error_of: ErrorOf, choice: str | None, stream: bool
) -> None:
    fields: dict[str, Any] = {"tools": [], "stream": stream}
    if choice is not None:
        fields["tool_choice"] = choice
    answer = scripted.client().chat("Hi", model="plain", **fields)
    if choice == "required":
        assert answer.status == 400
        assert error_of(answer)["param"] == "tools"
    else:
        assert answer.status == 200


@pytest.mark.case(13)
@pytest.mark.parametrize("stream", [False, True])
def test_hosted_tool_is_named_in_the_refusal(
    scripted: Server, error_of: ErrorOf, stream: bool
) -> None:
    tools: list[dict[str, Any]] = [TOOL, {"type": "web_search"}]
    answer = scripted.client().chat("Hi", model="plain", tools=tools, stream=stream)
    assert answer.status == 400
    assert error_of(answer)["param"] == "tools[1].type"


@pytest.mark.case(13)
def test_parallel_tool_calls_false_is_no_reason_to_refuse(scripted: Server) -> None:
    answer = scripted.client().chat("Hi", model="plain", tools=[TOOL], parallel_tool_calls=False)
    assert answer.status == 200
