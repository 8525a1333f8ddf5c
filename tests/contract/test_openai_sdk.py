"""OpenAI's own client against a whole server: every call its users make, and its typed errors."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from refloat.testing.client import Client
from refloat.testing.harness import Server
from refloat.testing.patience import eventually
from tests.late_import import late_import

if TYPE_CHECKING:
    import openai
else:
    openai = late_import("openai")

KEY = "sk-contract"
UNICODE = "Grüße aus 東京 🚲!"
TOOLS: Any = [
    {
        "type": "function",
        "function": {
            "name": "get_weather",
            "description": "Weather of a city.",
            "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
        },
    }
]
RULES = [
    {"match": "long story", "text": "once more, ", "finish": "length"},
    {"match": "greet", "text": UNICODE, "chunk": "bytes"},
]

pytestmark = pytest.mark.process


def ask(content: str) -> Any:
    """One user message."""
    return [{"role": "user", "content": content}]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    keys = tmp_path_factory.mktemp("keys") / "keys.txt"
    keys.write_text(f"{KEY}\n")
    scripted: dict[str, Any] = {"model": "scripted", "context_length": 4096}
    config: dict[str, Any] = {
        # no holding: what a model is meets its callers at once
        "server": {"api_key_file": str(keys), "hold_timeout_s": 0, "log_prompts": True},
        "models": [
            {**scripted, "name": "echo", "engine_options": {"rules": RULES, "step_s": 0.002}},
            {**scripted, "name": "slow-loader", "engine_options": {"rules": RULES, "load_s": 1.0}},
            {"model": str(keys.parent / "nothing-here"), "name": "broken"},
        ],
    }
    with Server.start(config=config) as server:
        client = server.client(api_key=KEY)
        for name in ("echo", "slow-loader"):
            path = f"/v2/models/{name}/ready"
            eventually(lambda path=path: client.get(path).status == 200, what=name)
        yield server


@pytest.fixture
def plain(server: Server) -> Client:
    return server.client(api_key=KEY)


@pytest.fixture
def sdk(server: Server) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key=KEY, max_retries=0) as client:
        yield client


def kill_worker(plain: Client, model: str) -> None:
    """SIGKILL, and wait until the server has noticed."""
    [entry] = [m for m in plain.get("/health").json()["models"] if m["name"] == model]
    [worker] = entry["workers"]
    os.kill(worker["pid"], signal.SIGKILL)
    path = f"/v2/models/{model}/ready"
    eventually(lambda: plain.get(path).status == 503, every_s=0.005, what="the death noticed")


# --- chat -----------------------------------------------------------------------------------------


def test_chat_answers_whole(sdk: openai.OpenAI) -> None:
    answer = sdk.chat.completions.create(
        model="echo",
        messages=[
            {"role": "developer", "content": "Be brief."},
            {"role": "user", "content": [{"type": "text", "text": "Count from 1 to 5"}]},
        ],
        max_completion_tokens=100,
        user="u",
        metadata={"a": "b"},
    )
    assert answer.object == "chat.completion"
    assert answer.model == "echo"
    assert answer.id.startswith("chatcmpl-")
    assert (answer.system_fingerprint or "").startswith("fp_")
    [choice] = answer.choices
    assert (choice.message.role, choice.message.content) == ("assistant", "1 2 3 4 5")
    assert choice.finish_reason == "stop"
    assert choice.message.tool_calls is None
    usage = answer.usage
    assert usage is not None
    assert usage.total_tokens == usage.prompt_tokens + usage.completion_tokens
    assert usage.completion_tokens == 10  # a byte each, and the end
    assert usage.prompt_tokens_details is not None
    assert usage.prompt_tokens_details.cached_tokens is not None


@pytest.mark.parametrize("content", ["Count from 1 to 30", "greet", "Repeat: "])
def test_chat_stream_is_its_whole_answer(sdk: openai.OpenAI, content: str) -> None:
    whole = sdk.chat.completions.create(model="echo", messages=ask(content), temperature=0)
    with sdk.chat.completions.create(
        model="echo",
        messages=ask(content),
        temperature=0,
        stream=True,
        stream_options={"include_usage": True},
    ) as stream:
        chunks = list(stream)
    assert chunks[0].choices[0].delta.role == "assistant"
    assert len({chunk.id for chunk in chunks}) == 1
    *others, last = chunks
    assert last.choices == []
    assert last.usage is not None
    assert whole.usage is not None
    assert last.usage.completion_tokens == whole.usage.completion_tokens
    assert last.usage.prompt_tokens == whole.usage.prompt_tokens
    assert all(chunk.usage is None for chunk in others)
    text = "".join(chunk.choices[0].delta.content or "" for chunk in others)
    assert text == whole.choices[0].message.content
    assert "\ufffd" not in text
    reasons = [c.choices[0].finish_reason for c in others if c.choices[0].finish_reason]
    assert reasons == ["stop"]


def test_chat_gives_n_choices_in_both_modes(sdk: openai.OpenAI) -> None:
    whole = sdk.chat.completions.create(model="echo", messages=ask("Flip a coin"), n=3, seed=1)
    assert [choice.index for choice in whole.choices] == [0, 1, 2]
    assert all(choice.message.content in ("heads", "tails") for choice in whole.choices)
    with sdk.chat.completions.create(
        model="echo", messages=ask("Flip a coin"), n=3, seed=1, stream=True
    ) as stream:
        chunks = list(stream)
    texts = ["", "", ""]
    finished: list[int] = []
    for chunk in chunks:
        for choice in chunk.choices:
            texts[choice.index] += choice.delta.content or ""
            finished += [choice.index] if choice.finish_reason else []
    assert texts == [choice.message.content for choice in whole.choices]
    assert sorted(finished) == [0, 1, 2]


def test_chat_with_a_seed_repeats_itself_and_without_does_not(sdk: openai.OpenAI) -> None:
    def flip(**fields: Any) -> str | None:
        create: Any = sdk.chat.completions.create
        answer = create(model="echo", messages=ask("Flip a coin"), **fields)
        return answer.choices[0].message.content

    assert {flip(seed=2) for _ in range(3)} == {"heads"}
    assert {flip(seed=3) for _ in range(3)} == {"tails"}
    # a fair coin shows one side 40 times in a row once in a trillion runs
    assert {flip() for _ in range(40)} == {"heads", "tails"}


def test_chat_logprobs_spell_the_answer(sdk: openai.OpenAI) -> None:
    answer = sdk.chat.completions.create(
        model="echo", messages=ask("greet"), logprobs=True, top_logprobs=1
    )
    [choice] = answer.choices
    assert choice.logprobs is not None
    tokens = choice.logprobs.content or []
    assert b"".join(bytes(token.bytes or []) for token in tokens).decode() == UNICODE
    assert all(token.logprob < 0 for token in tokens)
    assert all([top.token for top in token.top_logprobs] == [token.token] for token in tokens)


@pytest.mark.parametrize("stream", [False, True])
def test_chat_stops_before_a_stop_string(sdk: openai.OpenAI, stream: bool) -> None:
    answer: Any = sdk.chat.completions.create(
        model="echo", messages=ask("Count from 1 to 99"), stop=["12", "zzz"], stream=stream
    )
    if stream:
        with answer:
            chunks = list(answer)
        text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks)
        reason = chunks[-1].choices[0].finish_reason
    else:
        text, reason = answer.choices[0].message.content, answer.choices[0].finish_reason
    assert (text, reason) == ("1 2 3 4 5 6 7 8 9 10 11 ", "stop")


def test_chat_ends_at_its_length(sdk: openai.OpenAI) -> None:
    answer = sdk.chat.completions.create(
        model="echo", messages=ask("a long story"), max_tokens=5, max_completion_tokens=7
    )
    assert answer.usage is not None
    assert answer.usage.completion_tokens == 7
    assert answer.choices[0].finish_reason == "length"


def test_chat_takes_tools_and_their_history(sdk: openai.OpenAI) -> None:
    def prompt_tokens(**fields: Any) -> int:
        create: Any = sdk.chat.completions.create
        answer = create(model="echo", messages=ask("Hi"), **fields)
        assert answer.choices[0].finish_reason == "stop"
        assert answer.choices[0].message.tool_calls is None
        assert answer.usage is not None
        return answer.usage.prompt_tokens

    assert prompt_tokens(tools=TOOLS, tool_choice="auto") > prompt_tokens()
    call = {"id": "c1", "type": "function", "function": {"name": "get_weather", "arguments": "{}"}}
    history: Any = [
        *ask("Weather?"),
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "Repeat: Sunny."},
    ]
    answer = sdk.chat.completions.create(model="echo", messages=history, tools=TOOLS)
    assert answer.choices[0].message.content == "Sunny."


# --- text completions -----------------------------------------------------------------------------


def test_completions_take_every_form_of_prompt(sdk: openai.OpenAI) -> None:
    prompts: list[Any] = [
        "Repeat: ab",
        ["Repeat: ab", "Repeat: cd"],
        list(b"Repeat: ab"),
        [list(b"Repeat: ab"), list(b"Repeat: cd")],
    ]
    texts = [
        [choice.text for choice in sdk.completions.create(model="echo", prompt=prompt).choices]
        for prompt in prompts
    ]
    assert texts == [["ab"], ["ab", "cd"], ["ab"], ["ab", "cd"]]


def test_completion_has_sixteen_tokens_by_default(sdk: openai.OpenAI) -> None:
    answer = sdk.completions.create(model="echo", prompt="long story")
    assert answer.usage is not None
    assert answer.usage.completion_tokens == 16
    assert answer.choices[0].finish_reason == "length"


@pytest.mark.parametrize("prompt", ["Repeat: ab", list(b"Repeat: ab")], ids=["text", "ids"])
def test_completion_echoes_its_prompt(sdk: openai.OpenAI, prompt: Any) -> None:
    answer = sdk.completions.create(model="echo", prompt=prompt, echo=True)
    assert answer.choices[0].text == "Repeat: abab"
    with sdk.completions.create(model="echo", prompt=prompt, echo=True, stream=True) as stream:
        assert "".join(chunk.choices[0].text for chunk in stream) == "Repeat: abab"


def test_completion_logprobs_line_up_with_the_text(sdk: openai.OpenAI) -> None:
    answer = sdk.completions.create(model="echo", prompt="Hi", logprobs=1)
    [choice] = answer.choices
    logprobs = choice.logprobs
    assert logprobs is not None
    assert logprobs.tokens is not None
    assert logprobs.text_offset is not None
    assert "".join(logprobs.tokens) == choice.text
    for token, offset in zip(logprobs.tokens, logprobs.text_offset, strict=True):
        assert choice.text[offset:].startswith(token)
    assert len(logprobs.token_logprobs or []) == len(logprobs.top_logprobs or []) > 0


def test_completion_gives_the_best_of_several(sdk: openai.OpenAI) -> None:
    answer = sdk.completions.create(
        model="echo", prompt="Flip a coin", best_of=6, n=2, seed=4, temperature=1
    )
    assert [choice.index for choice in answer.choices] == [0, 1]
    assert all(choice.text in ("heads", "tails") for choice in answer.choices)
    assert answer.choices[0].logprobs is None
    assert answer.usage is not None
    assert answer.usage.completion_tokens == 6 * 3  # two pieces and the end, of each candidate


# --- models ---------------------------------------------------------------------------------------


def test_models_are_listed_whatever_their_state(sdk: openai.OpenAI) -> None:
    cards = {card.id: card for card in sdk.models.list()}
    assert set(cards) == {"echo", "slow-loader", "broken"}
    card: Any = sdk.models.retrieve("echo")
    assert (card.object, card.max_model_len, card.state) == ("model", 4096, "ready")
    broken: Any = sdk.models.retrieve("broken")
    assert broken.state == "failed"
    assert "nothing-here" in broken.reason


# --- errors ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("fields", "param", "code"),
    [
        ({"temperature": 3}, "temperature", None),
        ({"messages": [{"role": "nobody", "content": ""}]}, "messages[0].role", None),
        ({"extra_body": {"n": "2"}}, "n", None),
        ({"verbosity": "low"}, "verbosity", "unsupported_value"),
        ({"response_format": {"type": "xml"}}, "response_format.type", None),
        ({"max_tokens": 5000}, "messages", "context_length_exceeded"),
        ({"messages": ask("x" * 5000)}, "messages", "context_length_exceeded"),
    ],
)
def test_bad_request_names_field_and_code(
    sdk: openai.OpenAI, fields: dict[str, Any], param: str, code: str | None, stream: bool
) -> None:
    create: Any = sdk.chat.completions.create
    body = {"model": "echo", "messages": ask("Hi"), "stream": stream, **fields}
    with pytest.raises(openai.BadRequestError) as caught:
        create(**body)
    assert (caught.value.param, caught.value.code) == (param, code)
    assert caught.value.type == "invalid_request_error"
    assert caught.value.request_id


def test_unknown_model_is_not_found(sdk: openai.OpenAI) -> None:
    with pytest.raises(openai.NotFoundError) as caught:
        sdk.chat.completions.create(model="nope", messages=ask("Hi"))
    assert (caught.value.code, caught.value.param) == ("model_not_found", "model")
    with pytest.raises(openai.NotFoundError):
        sdk.models.retrieve("nope")
    with pytest.raises(openai.NotFoundError) as no_route:
        sdk.embeddings.create(model="echo", input="x")
    assert no_route.value.code == "not_found"


def test_wrong_key_is_an_authentication_error(server: Server) -> None:
    with (
        openai.OpenAI(base_url=f"{server.url}/v1", api_key="wrong") as stranger,
        pytest.raises(openai.AuthenticationError) as caught,
    ):
        stranger.models.list()
    assert caught.value.code == "invalid_api_key"


def counting(calls: list[str]) -> Any:
    """An HTTP client that notes each request it sends."""

    def note(request: Any) -> None:
        calls.append(request.url.path)

    return openai.DefaultHttpxClient(event_hooks={"request": [note]})


def test_failed_model_is_not_asked_again(server: Server) -> None:
    calls: list[str] = []
    with (
        openai.OpenAI(
            base_url=f"{server.url}/v1", api_key=KEY, max_retries=5, http_client=counting(calls)
        ) as patient,
        pytest.raises(openai.InternalServerError) as caught,
    ):
        patient.chat.completions.create(model="broken", messages=ask("Hi"))
    assert caught.value.status_code == 503
    assert caught.value.code == "model_failed"
    assert caught.value.response.headers["x-should-retry"] == "false"
    assert len(calls) == 1


def test_retries_of_the_sdk_bridge_a_recovery(server: Server, plain: Client) -> None:
    kill_worker(plain, "slow-loader")
    calls: list[str] = []
    with openai.OpenAI(
        base_url=f"{server.url}/v1", api_key=KEY, max_retries=8, http_client=counting(calls)
    ) as patient:
        with pytest.raises(openai.InternalServerError) as caught:
            patient.with_options(max_retries=0).chat.completions.create(
                model="slow-loader", messages=ask("Hi")
            )
        raw = patient.chat.completions.with_raw_response.create(
            model="slow-loader", messages=ask("Hi")
        )
    assert caught.value.code == "model_recovering"
    assert caught.value.response.headers["x-should-retry"] == "true"
    assert 1 <= int(caught.value.response.headers["retry-after"]) <= 60
    assert raw.parse().choices[0].message.content == "Hello! How can I help you today?"
    assert len(calls) == 1 + 1 + raw.retries_taken


def test_stream_that_cannot_go_on_raises(sdk: openai.OpenAI, plain: Client) -> None:
    ready = "/v2/models/slow-loader/ready"
    eventually(lambda: plain.get(ready).status == 200, what="slow-loader")
    received: list[Any] = []
    with sdk.chat.completions.create(
        model="slow-loader", messages=ask("a long story"), stream=True
    ) as stream:
        iterator = iter(stream)
        while not any(chunk.choices[0].delta.content for chunk in received):
            received.append(next(iterator))
        kill_worker(plain, "slow-loader")
        with pytest.raises(openai.APIError) as caught:
            received.extend(iterator)
    assert caught.value.code == "model_recovering"
    body: Any = caught.value.body
    assert body["resumable"] is True
    assert body["tokens_emitted"] > 0
    assert all(chunk.choices[0].finish_reason is None for chunk in received)


# --- headers, and several at once -----------------------------------------------------------------


def test_raw_response_shows_our_headers(sdk: openai.OpenAI) -> None:
    create = sdk.chat.completions.with_raw_response.create
    raw = create(model="echo", messages=ask("Hi"), extra_headers={"X-Request-Id": "mine-1"})
    assert raw.headers["x-request-id"] == "mine-1"
    assert raw.headers["content-type"] == "application/json"
    assert raw.request_id == "mine-1"
    with sdk.chat.completions.with_streaming_response.create(
        model="echo", messages=ask("Hi"), stream=True
    ) as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        assert response.headers["cache-control"] == "no-cache"
        assert response.headers["x-accel-buffering"] == "no"
        assert response.headers["x-request-id"].startswith("req-")
        lines = [line for line in response.iter_lines() if line]
    assert lines[-1] == "data: [DONE]"


def test_prompt_is_logged_where_that_was_asked_for(sdk: openai.OpenAI, server: Server) -> None:
    sdk.chat.completions.create(
        model="echo", messages=ask("Repeat: a secret"), extra_headers={"X-Request-Id": "told"}
    )

    def logged() -> list[Any]:
        return [e for e in server.events("prompts") if e["request_id"] == "told"]

    [entry] = eventually(logged, what="the prompt in the log")
    assert entry["prompts"][0]["messages"][0]["content"] == "Repeat: a secret"


def test_async_client_streams_several_and_leaves_one(server: Server, plain: Client) -> None:
    async def read(client: openai.AsyncOpenAI, last: int) -> str:
        stream = await client.chat.completions.create(
            model="echo", messages=ask(f"Count from 1 to {last}"), stream=True
        )
        parts: list[str] = []
        async with stream:
            async for chunk in stream:
                parts += [choice.delta.content or "" for choice in chunk.choices]
        return "".join(parts)

    async def leave(client: openai.AsyncOpenAI) -> None:
        stream = await client.chat.completions.create(
            model="echo", messages=ask("a long story"), max_tokens=4000, stream=True
        )
        async with stream:
            async for chunk in stream:
                if chunk.choices[0].delta.content:
                    return

    async def scene() -> list[str]:
        async with openai.AsyncOpenAI(base_url=f"{server.url}/v1", api_key=KEY) as client:
            async with asyncio.TaskGroup() as group:
                readers = [group.create_task(read(client, last)) for last in range(20, 60, 8)]
                group.create_task(leave(client))
            return [reader.result() for reader in readers]

    texts = asyncio.run(scene())
    assert texts == [" ".join(map(str, range(1, last + 1))) for last in range(20, 60, 8)]

    def is_quiet() -> bool:
        metrics = plain.get("/metrics").body.decode()
        return 'refloat_running{model="echo"} 0.0' in metrics and (
            'refloat_aborted_total{model="echo"} 1.0' in metrics
        )

    eventually(is_quiet, what="the one that left to be given up")


# --- the real engine ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def tiny() -> Iterator[openai.OpenAI]:
    folder = Path(__file__).parents[1] / "data" / "tiny-scripted"
    with (
        Server.start([str(folder), "--name", "tiny", "--cache-size", "0.05"]) as server,
        openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0) as client,
    ):
        yield client


@pytest.mark.engine
def test_real_engine_streams_what_it_answers_whole(tiny: openai.OpenAI) -> None:
    body: Any = {
        "model": "tiny",
        "messages": ask("Repeat: Zürich 東京 🚲"),
        "temperature": 0,
        "extra_body": {"chat_template_kwargs": {"enable_thinking": False}},
    }
    create: Any = tiny.chat.completions.create
    whole = create(**body, logprobs=True)
    text = whole.choices[0].message.content
    assert text == "Zürich 東京 🚲"
    assert whole.choices[0].finish_reason == "stop"
    assert whole.choices[0].logprobs is not None
    tokens: list[Any] = whole.choices[0].logprobs.content
    spelt = [bytes(token.bytes) for token in tokens]
    assert b"".join(spelt).decode() == text
    with create(**body, stream=True) as stream:
        assert "".join(chunk.choices[0].delta.content or "" for chunk in stream) == text


@pytest.mark.engine
def test_real_engine_sees_the_tools_and_calls_one(tiny: openai.OpenAI) -> None:
    answer = tiny.chat.completions.create(
        model="tiny",
        messages=ask('Call {"name": "get_weather", "arguments": {"city": "Paris"}}'),
        tools=TOOLS,
        temperature=0,
        extra_body={"chat_template_kwargs": {"enable_thinking": False}},
    )
    [choice] = answer.choices
    [call] = choice.message.tool_calls or []
    assert call.type == "function"
    assert call.function.name == "get_weather"
    assert call.function.arguments == '{"city": "Paris"}'
    assert choice.message.content is None
    assert choice.finish_reason == "tool_calls"


@pytest.mark.engine
def test_agent_calls_a_tool_in_a_stream_and_reads_its_result(tiny: openai.OpenAI) -> None:
    messages = ask("What is the weather in Paris?")
    with tiny.chat.completions.create(
        model="tiny", messages=messages, tools=TOOLS, temperature=0, stream=True
    ) as stream:
        choices = [chunk.choices[0] for chunk in stream]
    assert choices[-1].finish_reason == "tool_calls"
    assert "".join(choice.delta.content or "" for choice in choices) == ""
    # a field of reasoning models' servers, which the client passes on
    thoughts = "".join(getattr(choice.delta, "reasoning_content", "") for choice in choices)
    assert "get_weather" in thoughts
    first, *rest = [call for choice in choices for call in choice.delta.tool_calls or ()]
    assert first.function is not None
    assert (first.type, first.function.name) == ("function", "get_weather")
    arguments = "".join(call.function.arguments or "" for call in rest if call.function)
    assert json.loads(arguments) == {"city": "Paris"}
    function = {"name": "get_weather", "arguments": arguments}
    made = {"id": first.id, "type": "function", "function": function}
    messages += [
        {"role": "assistant", "content": None, "tool_calls": [made]},
        {"role": "tool", "tool_call_id": first.id, "content": "rain"},
    ]
    answer = tiny.chat.completions.create(
        model="tiny", messages=messages, tools=TOOLS, temperature=0
    )
    assert "rain" in (answer.choices[0].message.content or "")
    assert answer.choices[0].finish_reason == "stop"


@pytest.mark.engine
def test_real_engine_samples_by_seed(tiny: openai.OpenAI) -> None:
    def digits(seed: int | None) -> str | None:
        answer = tiny.chat.completions.create(
            model="tiny",
            messages=ask("Write 20 random digits"),
            seed=seed,
            temperature=1,
            extra_body={"chat_template_kwargs": {"enable_thinking": False}},
        )
        return answer.choices[0].message.content

    assert digits(7) == digits(7)
    assert len({digits(seed) for seed in (1, 2, None, None)}) > 1
