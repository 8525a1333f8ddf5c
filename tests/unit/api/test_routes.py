"""The routes that only tell: models, health, configuration, tokens, the document."""

import json
import re
from typing import Any

import pytest

from refloat.generation.request import ChatPrompt, TextPrompt
from refloat.supervisor.fleet import Availability, WorkerSnapshot
from refloat.supervisor.lifecycle import WorkerState
from refloat.testing.client import Client
from refloat.wire.faults import FaultKind
from refloat.wire.messages import CacheFacts

PREFIXES = ["/v1", "/v3"]


@pytest.mark.parametrize("prefix", PREFIXES)
def test_models_are_listed(gateway: Any, prefix: str) -> None:
    client = Client(gateway.url)
    listed = client.get(f"{prefix}/models").json()
    assert listed["object"] == "list"
    [card] = listed["data"]
    assert card == client.get(f"{prefix}/models/m").json()
    assert (card["id"], card["object"], card["max_model_len"]) == ("m", "model", 4096)
    assert card["created"] == 1_700_000_000
    assert card["owned_by"]
    missing = client.get(f"{prefix}/models/nope")
    assert (missing.status, missing.json()["error"]["code"]) == (404, "model_not_found")


def test_model_names_may_have_slashes(gateway: Any, new_snapshot: Any) -> None:
    gateway.fleet.publish(new_snapshot("org/model"))
    client = Client(gateway.url)
    assert client.get("/v1/models/org/model").json()["id"] == "org/model"
    assert client.get("/v2/models/org/model/ready").status == 200
    assert client.get("/v2/models/org/model").json()["name"] == "org/model"
    gateway.fleet.publish(new_snapshot("org/model", Availability.FAILED, facts=None))


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v3/completions", "/v1/tokenize"])
def test_unknown_model_is_404(gateway: Any, path: str) -> None:
    message = [{"role": "user", "content": "x"}]
    fields = {"messages": message} if "chat" in path else {"prompt": "x"}
    answer = Client(gateway.url).post(path, {"model": "nope", **fields})
    assert answer.status == 404
    error = answer.json()["error"]
    assert (error["code"], error["param"]) == ("model_not_found", "model")


STATES: list[tuple[Availability, int, str, str]] = [
    (Availability.READY, 200, "AVAILABLE", "OK"),
    (Availability.LOADING, 503, "LOADING", "OK"),
    (Availability.RECOVERING, 503, "LOADING", "UNKNOWN"),
    (Availability.FAILED, 503, "LOADING", "FAILED_PRECONDITION"),
    (Availability.DRAINING, 503, "UNLOADING", "OK"),
    (Availability.UNLOADED, 503, "END", "OK"),
]


@pytest.mark.parametrize(("state", "status", "ovms", "code"), STATES)
def test_health_says_what_the_fleet_says(
    gateway_with: Any, new_snapshot: Any,
    state: Availability, status: int, ovms: str, code: str,
) -> None:  # fmt: skip
    gateway = gateway_with()
    reason = None if state is Availability.READY else "the device was lost"
    gateway.fleet.publish(new_snapshot("m", state, reason=reason))
    client = Client(gateway.url)
    assert client.get("/v2/health/live").status == 200
    assert client.get("/v2/health/ready").status == status
    assert client.get("/v2/health/ready").json()["ready"] is (status == 200)
    ready = client.get("/v2/models/m/ready")
    assert ready.status == status
    assert ready.json()["state"] == state.value
    assert client.get("/v2/models/m").status == 200
    for prefix in PREFIXES:
        [version] = client.get(f"{prefix}/config").json()["m"]["model_version_status"]
        assert (version["version"], version["state"]) == ("1", ovms)
        assert version["status"]["error_code"] == code
        if code not in ("OK",):
            assert version["status"]["error_message"] == "the device was lost"


def test_config_of_an_available_model_is_ovms_to_the_letter(gateway_with: Any) -> None:
    assert Client(gateway_with().url).get("/v1/config").json() == {
        "m": {
            "model_version_status": [
                {
                    "version": "1",
                    "state": "AVAILABLE",
                    "status": {"error_code": "OK", "error_message": "OK"},
                }
            ]
        }
    }


@pytest.mark.parametrize(("ready_when", "status"), [("any", 200), ("all", 503)])
def test_readiness_counts_models_as_configured(
    gateway_with: Any, new_snapshot: Any, ready_when: str, status: int
) -> None:
    gateway = gateway_with(ready_when=ready_when)
    gateway.fleet.publish(new_snapshot("b", Availability.FAILED))
    answer = Client(gateway.url).get("/v2/health/ready")
    assert answer.status == status
    assert answer.json()["models"]["b"]["state"] == "failed"


def test_summary_shows_workers_and_counts(gateway_with: Any, new_snapshot: Any) -> None:
    gateway = gateway_with()
    worker = WorkerSnapshot(
        worker_id=7,
        state=WorkerState.BACKOFF,
        since_s=gateway.context.clock(),
        cause=FaultKind.CONTEXT_FATAL,
        reason="the device was lost",
        pid=None,
        cache=CacheFacts(32, 100),
    )
    gateway.fleet.publish(
        new_snapshot(
            "m",
            Availability.RECOVERING,
            workers=(worker,),
            reason="the device was lost",
            cause=FaultKind.CONTEXT_FATAL,
            restarts={FaultKind.CONTEXT_FATAL: 2},
        )
    )
    gateway.metrics.waiting.labels("m").set(3)
    summary = Client(gateway.url).get("/health").json()
    assert (summary["status"], summary["version"]) == ("unready", "1.2.3")
    [model] = summary["models"]
    assert model["counts"]["waiting"] == 3
    assert model["restarts"] == {"context_fatal": 2}
    [shown] = model["workers"]
    assert (shown["id"], shown["state"], shown["cause"]) == (7, "backoff", "context_fatal")
    assert shown["cache"]["num_blocks"] == 100


@pytest.mark.parametrize("prefix", PREFIXES)
def test_tokens_go_both_ways(gateway: Any, prefix: str) -> None:
    client = Client(gateway.url)
    counted = client.post(f"{prefix}/tokenize", {"model": "m", "prompt": "Hi"}).json()
    assert (counted["count"], counted["tokens"], counted["max_model_len"]) == (3, [1, 2, 3], 4096)
    assert gateway.generations.prompts == [TextPrompt("Hi")]
    body = {"model": "m", "tokens": counted["tokens"]}
    assert client.post(f"{prefix}/detokenize", body).json() == {"prompt": "1 2 3"}


def test_chat_can_be_tokenized(gateway: Any) -> None:
    messages = [{"role": "user", "content": "Hi"}]
    body = {"model": "m", "messages": messages, "add_generation_prompt": False}
    assert Client(gateway.url).post("/v1/tokenize", body).status == 200
    expected = ChatPrompt(messages=messages, add_generation_prompt=False)
    assert gateway.generations.prompts == [expected]


@pytest.mark.parametrize(
    ("path", "fields", "param"),
    [
        ("/v1/tokenize", {}, "prompt"),
        ("/v1/tokenize", {"prompt": "x", "messages": []}, "prompt"),
        ("/v1/tokenize", {"prompt": 5}, "prompt"),
        ("/v1/tokenize", {"messages": []}, "messages"),
        ("/v1/tokenize", {"prompt": "x", "add_special_tokens": "no"}, "add_special_tokens"),
        ("/v1/detokenize", {}, "tokens"),
        ("/v1/detokenize", {"tokens": "x"}, "tokens"),
        ("/v1/detokenize", {"tokens": [1, -1]}, "tokens[1]"),
        ("/v1/detokenize", {"tokens": [1, 2**40]}, "tokens[1]"),
        ("/v1/detokenize", {"tokens": [1, 2048]}, "tokens[1]"),
    ],
)
def test_token_body_at_fault_names_its_field(
    gateway: Any, path: str, fields: dict[str, Any], param: str
) -> None:
    answer = Client(gateway.url).post(path, {"model": "m", **fields})
    assert (answer.status, answer.json()["error"]["param"]) == (400, param)


@pytest.mark.parametrize(
    "path", ["/", "/v1", "/v2/chat/completions", "/v1/chat/completions/", "/v1/x"]
)
def test_unknown_route_is_404_in_json(gateway: Any, path: str) -> None:
    answer = Client(gateway.url).get(path)
    assert (answer.status, answer.json()["error"]["code"]) == (404, "not_found")


def test_wrong_method_is_405_and_says_which(gateway: Any) -> None:
    client = Client(gateway.url)
    answer = client.get("/v1/chat/completions")
    assert (answer.status, answer.headers["allow"]) == (405, "POST")
    assert answer.json()["error"]["code"] == "method_not_allowed"
    assert client.request("DELETE", "/v1/models").headers["allow"] == "GET, HEAD"


def test_head_is_get_without_its_body(gateway: Any) -> None:
    client = Client(gateway.url)
    head, get = client.request("HEAD", "/v1/models"), client.get("/v1/models")
    assert (head.status, head.body) == (200, b"")
    assert head.headers["content-length"] == str(len(get.body))


def test_document_describes_every_route(gateway_with: Any) -> None:
    gateway = gateway_with(keys=["k"])
    document = Client(gateway.url, api_key="k").get("/openapi.json").json()
    assert document["openapi"].startswith("3.1.")
    assert document["info"]["version"] == "1.2.3"
    for prefix in PREFIXES:
        chat = document["paths"][f"{prefix}/chat/completions"]["post"]
        assert chat["security"] == [{"bearer": []}]
        assert set(chat["responses"]["200"]["content"]) == {"application/json", "text/event-stream"}
    assert "security" not in document["paths"]["/v2/health/live"]["get"]
    [parameter] = document["paths"]["/v1/models/{model}"]["get"]["parameters"]
    assert (parameter["name"], parameter["in"], parameter["required"]) == ("model", "path", True)
    ids = [o["operationId"] for item in document["paths"].values() for o in item.values()]
    assert len(ids) == len(set(ids))
    schemas = document["components"]["schemas"]
    assert schemas["ChatBody"]["required"] == ["model", "messages"]
    assert references(document)
    for reference in references(document):
        assert reference.removeprefix("#/components/schemas/") in schemas


def references(value: Any) -> list[str]:
    found = re.findall(r'"\$ref": "([^"]+)"', json.dumps(value))
    return [str(reference) for reference in found]


def test_document_is_json_all_through(gateway: Any) -> None:
    answer = Client(gateway.url).get("/openapi.json")
    assert answer.headers["content-type"] == "application/json"
    assert "{model:path}" not in json.dumps(answer.json()["paths"])
