"""Anthropic's own client against a whole server: messages, streams, tools, thinking, errors."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from refloat.testing.harness import Server
from refloat.testing.patience import eventually
from tests.late_import import late_import

if TYPE_CHECKING:
    import anthropic
else:
    anthropic = late_import("anthropic")

KEY = "sk-contract"
UNICODE = "Grüße aus 東京\u2028 🚲!"
TOOLS: Any = [
    {
        "name": "get_weather",
        "description": "Weather of a city.",
        "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}},
    }
]


def call(**arguments: Any) -> str:
    """A call as the scripted model's template teaches it."""
    body = json.dumps({"name": "get_weather", "arguments": arguments}, ensure_ascii=False)
    return f"<tool_call>\n{body}\n</tool_call>"


RULES = [
    {"match": "long story", "text": "once more, ", "finish": "length"},
    {"match": "greet", "text": UNICODE, "chunk": "bytes"},
    {"match": "weather", "text": f"Let me see.{call(city='Zürich')}"},
    {"match": "two cities", "text": call(city="Oslo") + call(city="Rome")},
    {"match": "21 degrees", "text": "It is warm."},
]
THINKING_TEMPLATE = textwrap.dedent("""\
    {%- for m in messages %}<|im_start|>{{ m.role }}
    {% if m.reasoning_content %}<think>{{ m.reasoning_content }}</think>{% endif -%}
    {{ m.content }}<|im_end|>
    {% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
    {% if enable_thinking is not defined or enable_thinking %}<think>
    {% else %}<think></think>
    {% endif %}{% endif %}""")
THOUGHTS = [{"match": "ponder", "text": "let me think</think>\n\nDone."}]

pytestmark = pytest.mark.process


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("files")
    (folder / "keys.txt").write_text(f"{KEY}\n")
    (folder / "chat.jinja").write_text(THINKING_TEMPLATE)
    scripted: dict[str, Any] = {"model": "scripted", "context_length": 4096}
    config: dict[str, Any] = {
        "server": {
            "api_key_file": str(folder / "keys.txt"),
            "max_body_bytes": 100_000,
            "reconnect_window_s": 30,
        },
        "models": [
            {**scripted, "name": "echo", "engine_options": {"rules": RULES}},
            {
                **scripted,
                "name": "thinker",
                "chat_template": str(folder / "chat.jinja"),
                "engine_options": {"rules": THOUGHTS},
            },
            {
                **scripted,
                "name": "frail",
                "engine_options": {"rules": RULES},
                "faults": [{"at": "token", "token": 5, "kind": "kill", "match": "greet"}],
            },
            {"model": str(folder / "nothing-here"), "name": "broken"},
        ],
    }
    with Server.start(config=config) as server:
        client = server.client(api_key=KEY)
        for name in ("echo", "thinker", "frail"):
            path = f"/v2/models/{name}/ready"
            eventually(lambda path=path: client.get(path).status == 200, what=name)
        yield server


@pytest.fixture
def sdk(server: Server) -> Iterator[anthropic.Anthropic]:
    with anthropic.Anthropic(base_url=server.url, api_key=KEY, max_retries=0) as client:
        yield client


def ask(content: Any) -> Any:
    """One user message."""
    return [{"role": "user", "content": content}]


def dumped(message: anthropic.types.Message) -> dict[str, Any]:
    """A message as both modes have to give it, but for what differs between any two answers."""
    plain = message.model_dump(exclude_none=True, exclude={"id"})
    for number, block in enumerate(plain["content"]):
        if block["type"] == "tool_use":
            block["id"] = f"call {number}"
        block.pop("parsed_output", None)
    return plain


def both(sdk: anthropic.Anthropic, content: str, **fields: Any) -> anthropic.types.Message:
    """The whole answer; the stream's end is the same message."""
    body: Any = {"model": "echo", "max_tokens": 200, "messages": ask(content), **fields}
    create: Any = sdk.messages.create
    whole: anthropic.types.Message = create(**body)
    with sdk.messages.stream(**body) as stream:
        streamed = stream.get_final_message()
    one, other = dumped(whole), dumped(streamed)
    for usage in (one["usage"], other["usage"]):  # the second prompt may be cached
        usage["input_tokens"] += usage.pop("cache_read_input_tokens")
    assert one == other
    return whole


# --- messages -------------------------------------------------------------------------------------


def test_message_answers_whole(sdk: anthropic.Anthropic) -> None:
    answer = sdk.messages.create(
        model="echo",
        max_tokens=100,
        system=[{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}],
        messages=ask([{"type": "text", "text": "Count from 1 to 5"}]),
        metadata={"user_id": "u"},
        extra_body={"temperature": 0.5, "top_p": 0.9, "top_k": 5},
    )
    assert (answer.type, answer.role, answer.model) == ("message", "assistant", "echo")
    assert answer.id.startswith("msg_")
    [block] = answer.content
    assert block.type == "text"
    assert block.text == "1 2 3 4 5"
    assert (answer.stop_reason, answer.stop_sequence) == ("end_turn", None)
    assert answer.usage.output_tokens == 10  # a byte each, and the end
    assert answer.usage.input_tokens > 0
    assert answer._request_id  # pyright: ignore[reportPrivateUsage]


@pytest.mark.parametrize("content", ["Count from 1 to 30", "greet", "Repeat: "])
def test_message_stream_is_its_whole_answer(sdk: anthropic.Anthropic, content: str) -> None:
    answer = both(sdk, content, extra_body={"temperature": 0})
    text = "".join(block.text for block in answer.content if block.type == "text")
    assert text == {"greet": UNICODE, "Repeat: ": ""}.get(content, text)
    assert answer.stop_reason == "end_turn"


def test_stream_tells_its_events_in_order(sdk: anthropic.Anthropic) -> None:
    with sdk.messages.create(
        model="echo", max_tokens=200, messages=ask("weather"), tools=TOOLS, stream=True
    ) as stream:
        events = list(stream)
    kinds: list[str] = []
    for event in events:
        kind = event.type
        if event.type == "content_block_start":
            kind += f" {event.index} {event.content_block.type}"
        elif event.type == "content_block_delta":
            kind = f"{event.index} {event.delta.type}"
        kinds += [kind] if kinds[-1:] != [kind] else []
    assert kinds == [
        "message_start",
        "content_block_start 0 text",
        "0 text_delta",
        "content_block_stop",
        "content_block_start 1 tool_use",
        "1 input_json_delta",
        "content_block_stop",
        "message_delta",
        "message_stop",
    ]
    [start] = [event for event in events if event.type == "message_start"]
    [end] = [event for event in events if event.type == "message_delta"]
    total = (end.usage.input_tokens or 0) + (end.usage.cache_read_input_tokens or 0)
    assert start.message.usage.input_tokens == total > 0
    assert end.delta.stop_reason == "tool_use"


def test_stop_reasons_say_what_ended_the_answer(sdk: anthropic.Anthropic) -> None:
    stopped = both(sdk, "Count from 1 to 99", stop_sequences=["zzz", "12"])
    assert (stopped.stop_reason, stopped.stop_sequence) == ("stop_sequence", "12")
    assert [b.text for b in stopped.content if b.type == "text"] == ["1 2 3 4 5 6 7 8 9 10 11 "]
    cut = both(sdk, "long story", max_tokens=7)
    assert (cut.stop_reason, cut.stop_sequence) == ("max_tokens", None)
    assert cut.usage.output_tokens == 7


def test_assistant_message_at_the_end_is_continued(sdk: anthropic.Anthropic) -> None:
    def count(*more: Any) -> int:
        messages: Any = [*ask("Hi"), *more]
        return sdk.messages.count_tokens(model="echo", messages=messages).input_tokens

    prefill = {"role": "assistant", "content": "So"}
    # one user's turn, and nothing behind the two letters
    assert count(prefill) == count() + len("So")


# --- tools ----------------------------------------------------------------------------------------


def test_tools_loop_ends_with_an_answer(sdk: anthropic.Anthropic) -> None:
    first = both(sdk, "weather?", tools=TOOLS)
    assert first.stop_reason == "tool_use"
    text, use = first.content
    assert text.type == "text"
    assert text.text == "Let me see."
    assert use.type == "tool_use"
    assert (use.name, use.input) == ("get_weather", {"city": "Zürich"})
    result = {"type": "tool_result", "tool_use_id": use.id, "content": "21 degrees"}
    messages: Any = [
        *ask("weather?"),
        {"role": "assistant", "content": first.content},
        {"role": "user", "content": [result]},
    ]
    last = sdk.messages.create(model="echo", max_tokens=50, messages=messages, tools=TOOLS)
    assert [b.text for b in last.content if b.type == "text"] == ["It is warm."]
    assert last.stop_reason == "end_turn"


def test_calls_are_single_where_parallel_ones_are_disabled(sdk: anthropic.Anthropic) -> None:
    both_cities = both(sdk, "two cities", tools=TOOLS)
    assert [b.input for b in both_cities.content if b.type == "tool_use"] == [
        {"city": "Oslo"},
        {"city": "Rome"},
    ]
    choice = {"type": "auto", "disable_parallel_tool_use": True}
    one = both(sdk, "two cities", tools=TOOLS, tool_choice=choice)
    assert [b.input for b in one.content if b.type == "tool_use"] == [{"city": "Oslo"}]
    none = both(sdk, "two cities", tools=TOOLS, tool_choice={"type": "none"})
    assert [b.type for b in none.content] == ["text"]


def test_cut_call_is_told_as_cut(sdk: anthropic.Anthropic) -> None:
    whole = sdk.messages.create(
        model="echo", max_tokens=20, messages=ask("two cities"), tools=TOOLS
    )
    assert whole.stop_reason == "max_tokens"
    assert [block.input for block in whole.content if block.type == "tool_use"] == [{}]


# --- thinking -------------------------------------------------------------------------------------


def test_thinking_comes_as_blocks_and_goes_back(sdk: anthropic.Anthropic) -> None:
    answer = both(sdk, "ponder", model="thinker")
    thinking, text = answer.content
    assert thinking.type == "thinking"
    assert (thinking.thinking, thinking.signature) == ("let me think", "")
    assert text.type == "text"
    assert text.text == "Done."
    messages: Any = [*ask("ponder"), {"role": "assistant", "content": answer.content}, *ask("Hi")]
    counted = sdk.messages.count_tokens(model="thinker", messages=messages).input_tokens
    bare: Any = [*ask("ponder"), {"role": "assistant", "content": "Done."}, *ask("Hi")]
    without = sdk.messages.count_tokens(model="thinker", messages=bare).input_tokens
    assert counted == without + len("<think>let me think</think>")


def test_thinking_switch_reaches_the_template(sdk: anthropic.Anthropic) -> None:
    def tokens(**fields: Any) -> int:
        count: Any = sdk.messages.count_tokens
        return count(model="thinker", messages=ask("Hi"), **fields).input_tokens

    off = tokens(thinking={"type": "disabled"})
    assert tokens() == tokens(thinking={"type": "enabled", "budget_tokens": 1024})
    assert tokens() == off - len("</think>")


# --- errors ---------------------------------------------------------------------------------------

IMAGE = {
    "type": "image",
    "source": {"type": "base64", "media_type": "image/png", "data": "aGk="},
}


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"extra_body": {"temperature": 3}}, "temperature"),
        ({"messages": ask([IMAGE])}, "messages[0].content[0].type"),
        ({"messages": ask([{"type": "text"}])}, "messages[0].content[0].text"),
        ({"messages": [{"role": "nobody", "content": ""}]}, "messages[0].role"),
        ({"tools": TOOLS, "tool_choice": {"type": "tool", "name": "nope"}}, "tool_choice"),
        ({"tools": [{"type": "web_search_20250305", "name": "w"}]}, "tools[0].type"),
        ({"stop_sequences": [""]}, "stop_sequences[0]"),
        ({"max_tokens": 5000}, "messages"),
        ({"thinking": {"type": "sometimes"}}, "thinking.type"),
        (
            {"messages": ask([{"type": "tool_result", "tool_use_id": "x"}])},
            "messages[0].content[0].tool_use_id",
        ),
    ],
)
def test_bad_request_names_its_field(
    sdk: anthropic.Anthropic, fields: dict[str, Any], param: str, stream: bool
) -> None:
    create: Any = sdk.messages.create
    body = {"model": "echo", "max_tokens": 10, "messages": ask("Hi"), "stream": stream, **fields}
    with pytest.raises(anthropic.BadRequestError) as caught:
        create(**body)
    error: Any = caught.value.body
    assert error["type"] == "error"
    assert (error["error"]["type"], error["error"]["param"]) == ("invalid_request_error", param)


def test_max_tokens_is_required(server: Server) -> None:
    answer = httpx.post(
        f"{server.url}/v1/messages",
        headers={"x-api-key": KEY},
        json={"model": "echo", "messages": ask("Hi")},
    )
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == "max_tokens"


def test_errors_have_their_types(server: Server, sdk: anthropic.Anthropic) -> None:
    create: Any = sdk.messages.create
    body: dict[str, Any] = {"model": "echo", "max_tokens": 10, "messages": ask("Hi")}
    with pytest.raises(anthropic.NotFoundError) as missing:
        create(**{**body, "model": "nope"})
    assert missing.value.type == "not_found_error"
    with (
        anthropic.Anthropic(base_url=server.url, api_key="wrong") as stranger,
        pytest.raises(anthropic.AuthenticationError) as unknown,
    ):
        stranger.messages.create(model="echo", max_tokens=10, messages=ask("Hi"))
    assert unknown.value.type == "authentication_error"
    with pytest.raises(anthropic.InternalServerError) as failed:
        create(**{**body, "model": "broken"})
    assert failed.value.type == "api_error"
    with pytest.raises(anthropic.RequestTooLargeError) as large:
        create(**{**body, "messages": ask("x" * 200_000)})
    assert large.value.type == "request_too_large"


@pytest.mark.parametrize("prefix", ["/v1", "/v3"])
def test_errors_outside_the_handlers_have_the_shape(server: Server, prefix: str) -> None:
    headers = {"x-api-key": KEY}
    url = f"{server.url}{prefix}/messages"
    answers = {
        404: httpx.post(f"{url}/batches", headers=headers),
        405: httpx.get(url, headers=headers),
        401: httpx.post(url),
        431: httpx.post(url, headers={**headers, "x-filler": "x" * 70_000}),
    }
    for status, answer in answers.items():
        assert answer.status_code == status
        body = answer.json()
        assert body["type"] == "error"
        assert set(body["error"]) >= {"type", "message"}
    elsewhere = httpx.post(f"{server.url}{prefix}/chat/completions")
    assert "type" not in elsewhere.json()


def test_bearer_key_opens_it_too(server: Server) -> None:
    with anthropic.Anthropic(base_url=server.url, auth_token=KEY, max_retries=0) as client:
        answer = client.messages.create(model="echo", max_tokens=5, messages=ask("Hi"))
    assert answer.stop_reason == "max_tokens"


# --- faults ---------------------------------------------------------------------------------------


def test_stream_goes_on_after_its_worker_died(sdk: anthropic.Anthropic) -> None:
    with sdk.messages.stream(model="frail", max_tokens=100, messages=ask("greet")) as stream:
        message = stream.get_final_message()
    assert [block.text for block in message.content if block.type == "text"] == [UNICODE]


def test_stream_is_read_again_from_any_event(server: Server) -> None:
    headers = {"x-api-key": KEY}
    body = {"model": "echo", "max_tokens": 200, "messages": ask("weather"), "stream": True}
    said = httpx.post(f"{server.url}/v1/messages", headers=headers, json={**body, "tools": TOOLS})
    whole = said.text
    path = f"{server.url}/v1/streams/{said.headers['x-stream-id']}"
    pieces = whole.split("\n\n")
    ids = [int(p.split("id: ")[1].split("\n")[0]) for p in pieces if p.startswith("id: ")]
    assert ids == sorted(ids)
    assert len(ids) > 5
    for number in ids[:-1]:
        again = httpx.get(path, params={"after": number}, headers=headers)
        assert whole.endswith(again.text)
        assert f"id: {number}\n" not in again.text
