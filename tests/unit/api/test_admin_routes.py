"""The operator's routes: who may call them, and what they hand on."""

import asyncio
from typing import Any

import pytest
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from refloat.api.asgi import build_asgi
from refloat.supervisor.fleet import Availability
from refloat.testing.client import Client

RESET = "/admin/models/m/reset"


@pytest.mark.parametrize(
    ("body", "accepts"),
    [(None, False), ({}, False), ({"accept_probe": None}, False), ({"accept_probe": True}, True)],
)
def test_reset_is_handed_on_and_tells_the_state_before(
    gateway: Any, new_snapshot: Any, body: object, accepts: bool
) -> None:
    gateway.fleet.publish(new_snapshot("m", Availability.FAILED))
    answer = Client(gateway.url).post(RESET, body)
    assert answer.json() == {"model": "m", "state": "failed", "restarts": True}
    assert gateway.context.control.orders[-1] == ("m", accepts)


def test_reset_of_a_name_with_slashes_finds_it(gateway: Any, new_snapshot: Any) -> None:
    gateway.fleet.publish(new_snapshot("org/model"))
    assert Client(gateway.url).post("/admin/models/org/model/reset", None).status == 200
    assert gateway.context.control.orders[-1] == ("org/model", False)


@pytest.mark.parametrize(
    ("path", "body", "status", "code"),
    [
        ("/admin/models/nope/reset", None, 404, "model_not_found"),
        ("/admin/models/gone/reset", None, 409, "conflict"),
        (RESET, {"accept_prob": True}, 400, None),
        (RESET, {"accept_probe": "yes"}, 400, None),
        (RESET, b"[", 400, None),
        (RESET, b" " * 5000, 413, "request_too_large"),
    ],
)
def test_reset_that_cannot_be_meant_is_refused(
    gateway: Any, new_snapshot: Any, path: str, body: object, status: int, code: str | None
) -> None:
    gateway.fleet.publish(new_snapshot("gone", Availability.FAILED, facts=None))
    orders = list(gateway.context.control.orders)
    answer = Client(gateway.url).post(path, body)
    assert (answer.status, answer.json()["error"]["code"]) == (status, code)
    assert gateway.context.control.orders == orders


@pytest.mark.parametrize(
    ("body", "ordered", "told"), [(None, None, 30.0), ({}, None, 30.0), ({"deadline_s": 2}, 2, 2.0)]
)
def test_drain_is_handed_on(gateway: Any, body: object, ordered: float | None, told: float) -> None:
    answer = Client(gateway.url).post("/admin/drain", body)
    assert answer.status == 202
    assert answer.json() == {"status": "draining", "deadline_s": told}
    assert gateway.context.control.drains[-1] == ordered


@pytest.mark.parametrize("body", [{"deadline_s": -1}, {"deadline": 5}, {"deadline_s": "5"}, b"["])
def test_drain_that_cannot_be_meant_is_refused(gateway: Any, body: object) -> None:
    drains = list(gateway.context.control.drains)
    assert Client(gateway.url).post("/admin/drain", body).status == 400
    assert Client(gateway.url).get("/admin/drain").status == 405
    assert gateway.context.control.drains == drains


def test_reset_with_keys_set_asks_for_one(gateway_with: Any) -> None:
    gateway = gateway_with(keys=["k"])
    assert Client(gateway.url).post(RESET, None).status == 401
    assert Client(gateway.url, api_key="k").post(RESET, None, Origin="https://a.b").status == 200


@pytest.mark.parametrize(
    "headers",
    [{"Origin": "https://evil.example"}, {"X_Forwarded_For": "10.0.0.9"}, {"Forwarded": "for=x"}],
)
def test_reset_without_keys_answers_no_web_page_and_no_proxy(
    gateway: Any, headers: dict[str, str]
) -> None:
    answer = Client(gateway.url).post(RESET, None, **headers)
    assert (answer.status, answer.json()["error"]["code"]) == (403, "forbidden")
    assert Client(gateway.url).get("/v1/models").status == 200


@pytest.mark.parametrize(
    ("address", "status"),
    [
        ("127.0.0.1", 200),
        ("127.8.8.8", 200),
        ("::1", 200),
        ("::ffff:127.0.0.1", 200),
        (None, 200),
        ("10.0.0.9", 403),
        ("::ffff:10.0.0.9", 403),
        ("2001:db8::1", 403),
        ("somewhere", 403),
    ],
)
def test_reset_without_keys_answers_this_machine_alone(
    gateway: Any, address: str | None, status: int
) -> None:
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Message) -> None:
        sent.append(message)

    scope: Scope = {
        "type": "http",
        "method": "POST",
        "path": RESET,
        "headers": [],
        "client": None if address is None else (address, 4242),
    }
    asyncio.run(_call(build_asgi(gateway.context), scope, receive, send))
    assert sent[0]["status"] == status


async def _call(app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
    await app(scope, receive, send)
