"""What a request's headers and key make of it: deadlines, priority, leave to go on, limits of a key."""

import hashlib
from collections.abc import Callable
from typing import Any

import pytest

from refloat.config.key_rights import KeyRights
from refloat.generation.events import ChoiceEnd, Completed, Delta, FinishReason, Usage
from refloat.generation.request import GenerationRequest
from refloat.generation.runaway import Cut
from refloat.testing.client import Client

CHAT, COMPLETIONS = "/v1/chat/completions", "/v1/completions"
RIGHTS = (
    KeyRights("batch", hashlib.sha256(b"k1").digest(), priority=-5, max_requests=1),
    KeyRights("ops", hashlib.sha256(b"k2").digest(), finish_orphans=3, admin=True),
)


def chat(**fields: Any) -> dict[str, Any]:
    return {"model": "m", "messages": [{"role": "user", "content": "Hi"}], **fields}


def asked(gateway: Any, body: dict[str, Any], **headers: str) -> GenerationRequest:
    """The request that generations are given."""
    answer = Client(gateway.url).post(CHAT, body, **headers)
    assert answer.status == 200, answer.body
    return gateway.generations.last.request


@pytest.mark.parametrize(
    ("fields", "headers", "expected"),
    [
        ({}, {}, None),
        ({}, {"X-Request-Timeout": "2.5"}, 2.5),
        ({"request_timeout_s": 7}, {}, 7.0),
        ({"request_timeout_s": 7}, {"X-Request-Timeout": "30"}, 7.0),
        ({"request_timeout_s": None}, {"X-Request-Timeout": "30"}, 30.0),
    ],
)
def test_deadline_is_the_bodys_else_the_headers(
    gateway: Any, fields: dict[str, Any], headers: dict[str, str], expected: float | None
) -> None:
    assert asked(gateway, chat(**fields), **headers).deadline_s == expected


@pytest.mark.parametrize(
    ("header", "value"),
    [
        *(("X-Request-Timeout", value) for value in ("0", "-1", "soon", "1e3", "nan", "86401", "")),
        *(("X-On-Disconnect", value) for value in ("keep", "")),
        *(("Idempotency-Key", value) for value in ("", "a b", "x" * 256)),
    ],
)
def test_header_that_cannot_be_meant_is_named(gateway: Any, header: str, value: str) -> None:
    answer = Client(gateway.url).post(CHAT, chat(), **{header: value})
    assert answer.status == 400
    assert answer.json()["error"]["param"] == header


@pytest.mark.parametrize(
    ("field", "value"),
    [("request_timeout_s", 0), ("request_timeout_s", "5"), ("on_disconnect", "keep")],
)
def test_field_that_cannot_be_meant_is_named(gateway: Any, field: str, value: Any) -> None:
    answer = Client(gateway.url).post(CHAT, chat(**{field: value}))
    assert answer.status == 400
    assert answer.json()["error"]["param"] == field


def test_on_disconnect_finish_has_to_be_granted(gateway: Any) -> None:
    for headers, fields in (({}, {"on_disconnect": "finish"}), ({"X-On-Disconnect": "finish"}, {})):
        answer = Client(gateway.url).post(CHAT, chat(**fields), **headers)
        assert answer.status == 403
        assert answer.json()["error"]["param"] == "on_disconnect"


def test_what_asks_for_nothing_is_not_kept(gateway: Any) -> None:
    assert asked(gateway, chat()).retention is None


def test_same_body_is_known_again_and_another_is_not(gateway: Any) -> None:
    key = {"Idempotency-Key": "k"}
    found = [
        asked(gateway, body, **key).retention
        for body in (chat(), chat(), chat(seed=1))  # the client's JSON is the same each time
    ]
    digests = [retention.body_digest for retention in found if retention is not None]
    assert digests[0] == digests[1] != digests[2]
    assert all(retention is not None and retention.idempotency_key == "k" for retention in found)


@pytest.mark.parametrize(("value", "retry"), [("0", 0), ("2", 2), ("many", None), ("-1", None)])
def test_sdk_says_how_often_it_has_tried(gateway: Any, value: str, retry: int | None) -> None:
    retention = asked(gateway, chat(), **{"x-stainless-retry-count": value}).retention
    assert (None if retention is None else retention.sdk_retry) == retry


def test_rights_go_with_the_key(gateway_with: Callable[..., Any]) -> None:
    gateway = gateway_with(keys=["plain"], rights=RIGHTS, finish_orphans=1)
    seen: dict[str, GenerationRequest] = {}
    for key in ("plain", "k1", "k2"):
        answer = Client(gateway.url, api_key=key).post(CHAT, chat(on_disconnect="finish"))
        assert answer.status == 200
        seen[key] = gateway.generations.last.request
    assert {key: request.priority for key, request in seen.items()} == {
        "plain": 0,
        "k1": -5,
        "k2": 0,
    }
    quotas = {key: r.retention.finish_quota for key, r in seen.items() if r.retention is not None}
    assert quotas == {"plain": 1, "k1": 1, "k2": 3}
    assert seen["k1"].tenant == "key-batch"


def test_only_a_key_with_that_right_opens_the_operators_routes(
    gateway_with: Callable[..., Any],
) -> None:
    gateway = gateway_with(keys=["plain"], rights=RIGHTS)
    statuses = {
        key: Client(gateway.url, api_key=key).post("/admin/models/m/reset", {}).status
        for key in ("plain", "k1", "k2", "nope")
    }
    assert statuses == {"plain": 200, "k1": 403, "k2": 200, "nope": 401}


def test_key_has_no_more_requests_under_way_than_it_may(gateway_with: Callable[..., Any]) -> None:
    gateway = gateway_with(rights=RIGHTS)
    gateway.generations.says([Delta(0, "a")])
    client = Client(gateway.url, api_key="k1")
    with client.stream(CHAT, chat(stream=True)) as stream:
        next(stream.data())
        refused = client.post(CHAT, chat())
        assert refused.status == 429
        assert refused.json()["error"]["code"] == "queue_full"
        assert Client(gateway.url, api_key="k2").get("/v1/models").status == 200
    gateway.settle()
    gateway.generations.reset()
    assert client.post(CHAT, chat()).status == 200


@pytest.mark.parametrize(
    ("path", "body"), [(CHAT, chat()), (COMPLETIONS, {"model": "m", "prompt": "x"})]
)
def test_answer_that_was_cut_says_by_what(gateway: Any, path: str, body: dict[str, Any]) -> None:
    end = ChoiceEnd(0, FinishReason.LENGTH, Cut.LOOP)
    gateway.generations.says([Delta(0, "a")], [end, Completed(Usage(1, 1, 0))])
    client = Client(gateway.url)
    [choice] = client.post(path, body).json()["choices"]
    with client.stream(path, {**body, "stream": True}) as stream:
        events = stream.transcript().events
    for told in (choice, events[-1]["choices"][0]):
        assert (told["finish_reason"], told["stop_reason"]) == ("length", "repetition")
    assert all("stop_reason" not in e["choices"][0] for e in events[:-1])
