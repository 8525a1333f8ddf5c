"""One request, or one worker's death, that must not be everybody's."""

import json
from collections.abc import Callable
from typing import Any

import psutil
import pytest

from refloat.testing.client import Answer, Client
from refloat.testing.harness import Server
from refloat.testing.patience import eventually

pytestmark = pytest.mark.process

CHAT = "/v1/chat/completions"
ErrorOf = Callable[[Answer], dict[str, Any]]
COUNTED = " ".join(str(number) for number in range(1, 41))

TOOLS = [
    {
        "type": "function",
        "function": {
            "name": f"tool_{number}",
            "description": "Does something.",
            "parameters": {"type": "object", "properties": {"x": {"type": "string"}}},
        },
    }
    for number in range(7)
] + [{"type": "function", "function": {"name": f"bare_{number}"}} for number in range(3)]


KINDS = ("raise", "oom", "context_fatal", "segv", "kill")


@pytest.mark.case(8, 20, 30)
@pytest.mark.parametrize("kind", KINDS)
def test_engine_fault_in_one_request_costs_nobody_the_answer(faulty: Server, kind: str) -> None:
    client = faulty.client()
    prompt = f"Count from 1 to 40 [{kind}]"
    with client.chat_stream("Count from 1 to 40", model="frail") as neighbour:
        answer = client.chat(prompt, model="frail", tools=TOOLS)
        assert neighbour.transcript().text() == COUNTED
    assert answer.status == 200
    assert answer.text == COUNTED
    undisturbed = client.chat(prompt, model="garbling", tools=TOOLS).json()["usage"]
    assert answer.json()["usage"]["completion_tokens"] == undisturbed["completion_tokens"]
    assert client.metric("refloat_worker_restarts_total", model="frail") > 0
    assert client.metric("refloat_worker_restarts_total", model="garbling") == 0


@pytest.mark.engine
@pytest.mark.case(20)
def test_long_chat_with_growing_tool_results_is_replayed_from_the_prefix_cache(
    engine: Server,
) -> None:
    client = engine.client()
    messages: list[dict[str, Any]] = [{"role": "system", "content": "You call tools."}]
    cached = 0
    for turn in range(40):
        call = {
            "id": f"call_{turn}",
            "type": "function",
            "function": {"name": "tool_1", "arguments": json.dumps({"x": str(turn)})},
        }
        messages += [
            {"role": "user", "content": f"Turn {turn}"},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {
                "role": "tool",
                "tool_call_id": f"call_{turn}",
                "content": json.dumps({"rows": [turn] * (turn // 8)}),
            },
        ]
        body = {"model": "tiny-hybrid", "messages": messages, "max_tokens": 2, "temperature": 0}
        answer = client.post(CHAT, body)
        assert answer.status == 200, answer.body
        cached = answer.json()["usage"]["prompt_tokens_details"]["cached_tokens"]
    assert cached > 0


def two_turns(client: Client, model: str) -> list[str]:
    """Turn 1 with tools; turn 2 replays it with a tool call and its result, streamed."""
    first: list[dict[str, Any]] = [
        {"role": "system", "content": "You help."},
        {"role": "user", "content": "Hi"},
    ]
    fields = {"model": model, "tools": TOOLS, "temperature": 0, "max_tokens": 40}
    answer = client.post(CHAT, {"messages": first, **fields})
    assert answer.status == 200, answer.body
    call = {"name": "tool_1", "arguments": json.dumps({"x": "lamp"})}
    second = [
        *first,
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "call_1", "type": "function", "function": call}],
        },
        {"role": "tool", "tool_call_id": "call_1", "content": json.dumps({"state": "on"})},
        {"role": "user", "content": "Hi again"},
    ]
    with client.stream(CHAT, {"messages": second, "stream": True, **fields}) as stream:
        assert stream.status == 200
        whole = stream.transcript()
    assert whole.done
    assert whole.error is None
    return [answer.text, whole.text()]


@pytest.mark.case(22)
def test_second_turn_with_a_tool_result_is_answered(scripted: Server) -> None:
    client = scripted.client()
    assert all(two_turns(client, "plain"))
    assert client.chat("Hi", model="plain").status == 200


@pytest.mark.engine
@pytest.mark.case(22)
def test_second_turn_with_a_tool_result_is_answered_by_a_real_model(engine: Server) -> None:
    client = engine.client()
    assert all(two_turns(client, "tiny-scripted"))
    assert client.chat("Hi", model="tiny-scripted", max_tokens=4).status == 200


OUT_OF_RANGE: list[tuple[str, Any]] = [
    ("temperature", -5),
    ("temperature", 5),
    ("top_p", 2),
    ("top_k", -7),
    ("min_p", 2),
    ("frequency_penalty", 9),
    ("presence_penalty", -9),
    ("repetition_penalty", 0),
    ("logit_bias", {"99999999": 5}),
    ("logit_bias", {"1": 1e9}),
    ("max_tokens", -1),
    ("max_completion_tokens", 0),
    ("min_tokens", -1),
    ("n", 1_000_000),
    ("n", 0),
    ("seed", 2**70),
    ("stop_token_ids", [2**40]),
    ("top_logprobs", 50),
]


def check_ranges(server: Server, model: str, prompt: str, error_of: ErrorOf) -> str:
    """Every bad field is refused by name while a stream runs, whose text is returned."""
    client = server.client()
    with client.chat_stream(prompt, model=model, max_tokens=300) as running:
        for field, value in OUT_OF_RANGE:
            for stream in (False, True):
                answer = client.chat("Hi", model=model, **{field: value}, stream=stream)
                assert answer.status == 400, (field, answer.body)
                assert error_of(answer)["param"].startswith(field)
        whole = running.transcript()
    assert whole.done
    assert whole.error is None
    return whole.text()


@pytest.mark.case(25)
def test_field_out_of_range_is_named_and_harms_nobody(scripted: Server, error_of: ErrorOf) -> None:
    assert check_ranges(scripted, "slow", "Count from 1 to 40", error_of) == COUNTED


@pytest.mark.engine
@pytest.mark.case(25)
def test_field_out_of_range_does_not_reach_a_real_engine(engine: Server, error_of: ErrorOf) -> None:
    assert check_ranges(engine, "tiny-llm", "Tell me a story", error_of)


#: The ends of the documented ranges, at which engines are particular.
EDGES: list[dict[str, Any]] = [
    {"temperature": 2},
    {"temperature": 1e-9},
    {"top_p": 0},
    {"top_p": 1},
    {"top_k": -1},
    {"top_k": 0},
    {"top_k": 2**31 - 1},
    {"min_p": 0},
    {"min_p": 1},
    {"presence_penalty": -2, "frequency_penalty": 2},
    {"repetition_penalty": 1e-9},
    {"repetition_penalty": 10},
    {"seed": -(2**63)},
    {"seed": 2**63 - 1},
    {"min_tokens": 4},
    {"min_tokens": 4, "ignore_eos": True},
    {"stop_token_ids": [0]},
]


@pytest.mark.engine
@pytest.mark.case(25)
def test_every_value_inside_the_documented_ranges_is_taken_by_a_real_engine(
    engine: Server,
) -> None:
    client = engine.client()
    for fields in EDGES:
        for temperature in (0, 1):
            every = {"model": "tiny-llm", "max_tokens": 4, "temperature": temperature, **fields}
            answer = client.chat("Hi", **every)
            assert answer.status == 200, (fields, answer.body)


def nested(depth: int, opening: str, closing: str) -> str:
    """`depth` brackets around nothing."""
    return opening * depth + closing * depth


@pytest.mark.case(27)
def test_deep_nesting_costs_its_sender_a_400_and_the_server_nothing(
    scripted: Server, error_of: ErrorOf
) -> None:
    client = scripted.client()
    gateway = psutil.Process(scripted.process.pid)
    head = '{"model":"plain","messages":[{"role":"user","content":"Hi"}],'
    schema = nested(20_000, '{"properties":{"a":', "}}").replace('{"properties":{"a":}}', "{}")
    tool = '"tools":[{"type":"function","function":{"name":"f","parameters":%s}}]}'
    bodies = [
        nested(100_000, "[", "]"),
        head + '"messages":' + nested(100_000, "[", "]") + "}",
        head + '"unknown":' + nested(100_000, "[", "]") + "}",
        head + '"metadata":' + nested(100_000, '{"a":', "}").replace('{"a":}', "{}") + "}",
        head + tool % schema,
        head + '"chat_template_kwargs":' + schema + "}",
        head + '"response_format":' + schema + "}",
    ]
    before = gateway.memory_info().rss
    for body in bodies:
        answer = client.post(CHAT, body.encode())
        assert answer.status == 400, (body[:120], answer.body)
        error_of(answer)
    # no grammar is compiled from a tool's schema yet; the pattern is text like any other
    pattern = json.dumps({"properties": {"a": {"type": "string", "pattern": "(" * 60_000}}})
    assert client.post(CHAT, (head + tool % pattern).encode()).status in (200, 400)
    assert gateway.memory_info().rss - before < 100 * 2**20


CHAT_TYPES: dict[str, list[Any]] = {
    "model": [1, None, [], True],
    "messages": ["x", {}, [1], None],
    "stream": ["true", 1, []],
    "stream_options": [True, "x", []],
    "max_tokens": ["5", 1.5, True, []],
    "max_completion_tokens": ["5", {}],
    "min_tokens": ["1", []],
    "temperature": ["1", [], True],
    "top_p": ["1", {}],
    "top_k": ["1", 1.5],
    "min_p": ["1", []],
    "n": ["1", 1.5, True],
    "seed": ["1", 1.5],
    "stop": [5, {}, [1]],
    "include_stop_str_in_output": ["true", 1],
    "stop_token_ids": ["1", 1, ["x"]],
    "presence_penalty": ["1", []],
    "frequency_penalty": ["1", []],
    "repetition_penalty": ["1", []],
    "logprobs": ["true", 1],
    "top_logprobs": ["1", True],
    "ignore_eos": ["true", 0],
    "user": [1, []],
    "metadata": ["x", {"a": 1}],
    "logit_bias": ["x", [1]],
    "tools": ["x", {}, [1]],
    "tool_choice": [1, []],
    "parallel_tool_calls": ["false", 0],
    "reasoning_effort": [1, []],
    "chat_template_kwargs": ["x", []],
    "response_format": ["x", 1],
}
COMPLETION_TYPES: dict[str, list[Any]] = {
    "prompt": [1, {}, None, [1, "x"], [1.5], [True]],
    "echo": ["true", 1],
    "best_of": ["1", 1.5],
    "logprobs": ["1", True],
    "suffix": [1, ["x"]],
    "add_special_tokens": ["true", 1],
}


@pytest.mark.case(28)
@pytest.mark.parametrize(
    ("path", "base", "types"),
    [
        (CHAT, {"messages": [{"role": "user", "content": "Hi"}]}, CHAT_TYPES),
        ("/v1/completions", {"prompt": "Hi"}, COMPLETION_TYPES),
    ],
)
def test_field_of_a_wrong_type_is_named(
    scripted: Server, error_of: ErrorOf, path: str, base: dict[str, Any], types: dict[str, Any]
) -> None:
    client = scripted.client()
    for field, values in types.items():
        for value in values:
            answer = client.post(path, {"model": "plain", **base, field: value})
            assert answer.status == 400, (field, value, answer.body)
            assert error_of(answer)["param"].startswith(field), (field, value, answer.body)


def leave_streams(server: Server, model: str, prompt: str, count: int) -> None:
    """Streams left after some of their chunks, beside one that is read to its end."""
    client = server.client()
    with client.chat_stream(prompt, model=model, max_tokens=100) as kept:
        for number in range(count):
            with client.chat_stream(prompt, model=model) as left:
                for _ in range(1 + number % 5):
                    assert next(left.data())
        whole = kept.transcript()
    assert whole.done
    assert len(whole.finish_reasons()) == 1
    eventually(lambda: client.metric("refloat_running", model=model) == 0, what="all to end")
    assert client.chat("Hi", model=model, max_tokens=4).status == 200


@pytest.mark.case(29)
def test_clients_that_leave_break_nobody_elses_stream(scripted: Server) -> None:
    leave_streams(scripted, "slow", "Count from 1 to 900", 50)


@pytest.mark.engine
@pytest.mark.case(29)
def test_clients_that_leave_do_not_kill_a_real_engine(engine: Server) -> None:
    leave_streams(engine, "tiny-llm", "Tell me a story", 30)


@pytest.mark.case(30)
def test_killed_worker_comes_back_by_itself(faulty: Server) -> None:
    client = faulty.client()
    with client.chat_stream("Count from 1 to 40", model="frail") as stream:
        killed = faulty.kill_worker("frail")
        answer = client.chat("Hi", model="frail")
        assert stream.transcript().text() == COUNTED
    assert answer.status == 200
    assert faulty.worker_pid("frail") != killed
    assert client.chat("Hi", model="frail").status == 200


@pytest.mark.case(30)
def test_load_that_never_ends_is_backed_off_and_visible(
    start_server: Callable[..., Server], error_of: ErrorOf
) -> None:
    endless = {
        "model": "scripted",
        "name": "endless",
        "load_timeout_s": 0.2,
        "engine_options": {"load_s": 60},
    }
    config = {
        "models": [endless, {"model": "scripted", "name": "calm"}],
        "server": {"hold_timeout_s": 0.2},
    }
    with start_server(config=config) as server:
        client = server.client()

        def restarts() -> Any:
            (model,) = (m for m in client.get("/health").json()["models"] if m["name"] == "endless")
            return model if sum(model["restarts"].values()) >= 2 else None

        model = eventually(restarts, what="the load to be tried again")
        assert model["state"] in ("loading", "failed")
        assert model["reason"]
        answer = client.chat("Hi", model="endless")
        assert answer.status == 503
        assert error_of(answer)["type"] == "server_error"
        assert client.get("/v2/models/endless/ready").status == 503
        assert client.chat("Hi", model="calm").status == 200
