"""OpenAI's own client against `/v1/responses`: items, streams, what is kept, and what is not."""

from __future__ import annotations

import json
import sqlite3
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from refloat.testing.harness import Server
from refloat.testing.patience import eventually
from tests.late_import import late_import

if TYPE_CHECKING:
    import openai
else:
    openai = late_import("openai")

KEYS = ("sk-one", "sk-two")
TOOLS: Any = [
    {
        "type": "function",
        "name": "get_weather",
        "description": "Weather of a city.",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
    }
]
CALL = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Zürich"}}\n</tool_call>'
RULES = [
    {"match": "long story", "text": "once more, ", "finish": "length"},
    {"match": "weather", "text": f"Let me see.{CALL}"},
    {"match": "21 degrees", "text": "It is warm."},
]
THINKING_TEMPLATE = textwrap.dedent("""\
    {%- for m in messages %}<|im_start|>{{ m.role }}
    {% if m.reasoning_content %}<think>{{ m.reasoning_content }}</think>{% endif -%}
    {{ m.content }}<|im_end|>
    {% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
    <think>
    {% endif %}""")
THOUGHTS = [{"match": "ponder", "text": "let me think</think>\n\nDone."}]

pytestmark = pytest.mark.process


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, home: Path) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("files")
    (folder / "keys.txt").write_text("\n".join(KEYS))
    (folder / "chat.jinja").write_text(THINKING_TEMPLATE)
    scripted: dict[str, Any] = {"model": "scripted", "context_length": 4096}
    config: dict[str, Any] = {
        "server": {"api_key_file": str(folder / "keys.txt"), "reconnect_window_s": 30},
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
                "name": "slow",
                "engine_options": {"rules": RULES, "step_s": 0.05},
            },
            {
                **scripted,
                "name": "frail",
                "engine_options": {"rules": RULES},
                "faults": [{"at": "token", "token": 5, "kind": "kill", "match": "weather"}],
            },
        ],
    }
    with Server.start(config=config, env={"REFLOAT_HOME": str(home)}) as server:
        client = server.client(api_key=KEYS[0])
        for name in ("echo", "thinker", "slow", "frail"):
            path = f"/v2/models/{name}/ready"
            eventually(lambda path=path: client.get(path).status == 200, what=name)
        yield server


@pytest.fixture
def sdk(server: Server) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key=KEYS[0], max_retries=0) as client:
        yield client


def streamed(sdk: openai.OpenAI, **body: Any) -> tuple[list[Any], Any]:
    """All events, and the response as the SDK puts it together."""
    create: Any = sdk.responses.stream
    with create(**body) as stream:
        events = list(stream)
        return events, events[-1].response


def items_of(response: Any) -> list[Any]:
    """The output without what differs between any two answers."""
    plain = response.model_dump(exclude_none=True)["output"]
    for item in plain:
        item.pop("id")
        item.pop("call_id", None)
        item.pop("parsed_arguments", None)
    return plain


def both(sdk: openai.OpenAI, content: Any, **fields: Any) -> Any:
    """The whole answer; the stream's end has the same output."""
    body = {"model": "echo", "input": content, **fields}
    create: Any = sdk.responses.create
    whole = create(**body)
    _, last = streamed(sdk, **body)
    assert items_of(last) == items_of(whole)
    assert last.status == whole.status
    return whole


# --- answers --------------------------------------------------------------------------------------


def test_response_answers_whole(sdk: openai.OpenAI) -> None:
    answer = both(
        sdk,
        "Count from 1 to 5",
        instructions="Be brief.",
        max_output_tokens=100,
        temperature=0.5,
        top_p=0.9,
        metadata={"a": "b"},
        text={"format": {"type": "text"}},
        user="u",
    )
    assert (answer.object, answer.model, answer.status) == ("response", "echo", "completed")
    assert answer.id.startswith("resp_")
    assert answer.output_text == "1 2 3 4 5"
    assert answer.usage.output_tokens == 10
    assert answer.usage.total_tokens == answer.usage.input_tokens + 10
    assert (answer.instructions, answer.metadata) == ("Be brief.", {"a": "b"})
    assert (answer.temperature, answer.max_output_tokens) == (0.5, 100)


def test_cut_response_is_incomplete(sdk: openai.OpenAI) -> None:
    answer = both(sdk, "long story", max_output_tokens=7)
    assert answer.status == "incomplete"
    assert answer.incomplete_details.reason == "max_output_tokens"
    assert answer.output[0].status == "incomplete"


def test_events_come_in_order_and_numbered(sdk: openai.OpenAI) -> None:
    with sdk.responses.create(model="echo", input="weather?", tools=TOOLS, stream=True) as stream:
        events = list(stream)
    assert [event.sequence_number for event in events] == list(range(len(events)))
    kinds: list[str] = []
    for event in events:
        kind = event.type.removeprefix("response.")
        kinds += [kind] if kinds[-1:] != [kind] else []
    assert kinds == [
        "created",
        "in_progress",
        "output_item.added",
        "content_part.added",
        "output_text.delta",
        "output_text.done",
        "content_part.done",
        "output_item.done",
        "output_item.added",
        "function_call_arguments.delta",
        "function_call_arguments.done",
        "output_item.done",
        "completed",
    ]


def test_reasoning_is_an_item_and_goes_back(sdk: openai.OpenAI) -> None:
    answer = both(sdk, "ponder", model="thinker")
    reasoning, message = answer.output
    assert reasoning.type == "reasoning"
    assert [part.text for part in reasoning.content] == ["let me think"]
    assert message.content[0].text == "Done."
    first: Any = {"role": "user", "content": "ponder"}
    again: Any = [first, *answer.output, {"role": "user", "content": "Hi"}]
    bare: Any = [first, message, {"role": "user", "content": "Hi"}]
    counts: list[int] = []
    for items in (again, bare):
        usage = sdk.responses.create(model="thinker", input=items, max_output_tokens=1).usage
        assert usage is not None
        counts.append(usage.input_tokens)
    assert counts[0] - counts[1] == len("<think>let me think</think>")


def test_stream_goes_on_after_its_worker_died(sdk: openai.OpenAI) -> None:
    _, last = streamed(sdk, model="frail", input="weather?", tools=TOOLS)
    assert [item.type for item in last.output] == ["message", "function_call"]
    assert json.loads(last.output[1].arguments) == {"city": "Zürich"}


def test_stream_is_read_again_from_any_event(server: Server) -> None:
    headers = {"authorization": f"Bearer {KEYS[0]}"}
    body = {"model": "echo", "input": "weather?", "stream": True, "tools": TOOLS}
    said = httpx.post(f"{server.url}/v1/responses", headers=headers, json=body)
    path = f"{server.url}/v1/streams/{said.headers['x-stream-id']}"
    lines = said.text.splitlines()
    ids = [int(line.removeprefix("id: ")) for line in lines if line.startswith("id: ")]
    assert len(ids) > 5
    for number in ids[:-1:3]:
        again = httpx.get(path, params={"after": number}, headers=headers).text
        # the last event has the time at which it was told
        assert said.text.rpartition("event: ")[0].endswith(again.rpartition("event: ")[0])


# --- conversations --------------------------------------------------------------------------------


def test_tools_loop_goes_on_from_the_previous_response(sdk: openai.OpenAI) -> None:
    first = both(sdk, "weather?", tools=TOOLS)
    call = first.output[-1]
    assert (call.type, call.name) == ("function_call", "get_weather")
    assert json.loads(call.arguments) == {"city": "Zürich"}
    result: Any = {"type": "function_call_output", "call_id": call.call_id, "output": "21 degrees"}
    kept = sdk.responses.create(
        model="echo", previous_response_id=first.id, input=[result], tools=TOOLS
    )
    assert kept.output_text == "It is warm."
    assert kept.previous_response_id == first.id
    history: Any = [{"role": "user", "content": "weather?"}, *first.output, result]
    sent = sdk.responses.create(model="echo", input=history, tools=TOOLS)
    assert sent.usage is not None
    assert kept.usage is not None
    assert sent.usage.input_tokens == kept.usage.input_tokens


def test_response_is_retrieved_and_deleted(server: Server, sdk: openai.OpenAI) -> None:
    answer = sdk.responses.create(model="echo", input="Hi")
    found = sdk.responses.retrieve(answer.id)
    assert found.to_dict() == answer.to_dict()
    with (
        openai.OpenAI(base_url=f"{server.url}/v1", api_key=KEYS[1], max_retries=0) as stranger,
        pytest.raises(openai.NotFoundError),
    ):
        stranger.responses.retrieve(answer.id)
    sdk.responses.delete(answer.id)
    for gone in (sdk.responses.retrieve, sdk.responses.delete, sdk.responses.cancel):
        with pytest.raises(openai.NotFoundError):
            gone(answer.id)
    with pytest.raises(openai.NotFoundError) as caught:
        sdk.responses.create(model="echo", input="Hi", previous_response_id=answer.id)
    assert caught.value.param == "previous_response_id"


def test_response_that_is_not_to_be_stored_is_not(sdk: openai.OpenAI, home: Path) -> None:
    answer = sdk.responses.create(model="echo", input="Repeat: unkept", store=False)
    assert answer.output_text == "unkept"
    with pytest.raises(openai.NotFoundError):
        sdk.responses.retrieve(answer.id)
    sdk.responses.retrieve(sdk.responses.create(model="echo", input="Hi").id)
    [file] = home.rglob("responses.sqlite3")
    assert file.stat().st_mode & 0o077 == 0
    with sqlite3.connect(file) as db:
        [(count,)] = db.execute("SELECT COUNT(*) FROM responses WHERE items LIKE '%unkept%'")
    assert count == 0


def test_response_under_way_is_cancelled(sdk: openai.OpenAI) -> None:
    with sdk.responses.create(model="slow", input="long story", stream=True) as stream:
        events = iter(stream)
        created: Any = next(events)
        assert sdk.responses.retrieve(created.response.id).status == "in_progress"
        cancelled = sdk.responses.cancel(created.response.id)
        assert cancelled.status == "cancelled"
        *_, last = events
    assert last.type == "response.failed"
    assert sdk.responses.retrieve(created.response.id).status == "cancelled"
    with pytest.raises(openai.BadRequestError):
        sdk.responses.cancel(created.response.id)


def test_deleted_response_does_not_come_back_with_its_stream(server: Server) -> None:
    headers = {"authorization": f"Bearer {KEYS[0]}"}
    body = {"model": "echo", "input": "Hi", "stream": True}
    said = httpx.post(f"{server.url}/v1/responses", headers=headers, json=body)
    stream_id = said.headers["x-stream-id"]
    assert httpx.delete(f"{server.url}/v1/responses/{stream_id}", headers=headers).is_success
    again = httpx.get(f"{server.url}/v1/streams/{stream_id}", headers=headers)
    assert "response.completed" in again.text
    gone = httpx.get(f"{server.url}/v1/responses/{stream_id}", headers=headers)
    assert gone.status_code == 404


def test_response_that_nobody_reads_is_found_and_cancelled(server: Server) -> None:
    headers = {"authorization": f"Bearer {KEYS[0]}"}
    body = {"model": "slow", "input": "long story", "stream": True}
    with (
        httpx.Client(base_url=server.url, headers=headers) as client,
        client.stream("POST", "/v1/responses", json=body) as said,
    ):
        next(line for line in said.iter_lines() if "output_text.delta" in line)
        path = f"/v1/responses/{said.headers['x-stream-id']}"
        assert httpx.head(f"{server.url}{path.replace('responses', 'streams')}", headers=headers)
        read = httpx.get(f"{server.url}{path}", headers=headers).json()
        assert read["status"] == "in_progress"
    found = httpx.get(f"{server.url}{path}", headers=headers).json()
    assert found["status"] == "in_progress"
    assert found["output"][0]["content"][0]["text"]
    assert httpx.get(f"{server.url}{path}", headers={"authorization": f"Bearer {KEYS[1]}"}).is_error
    ended = httpx.post(f"{server.url}{path}/cancel", headers=headers).json()
    assert ended["status"] == "cancelled"
    assert httpx.get(f"{server.url}{path}", headers=headers).json() == ended


# --- errors ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"temperature": 3}, "temperature"),
        ({"input": []}, "input"),
        ({"input": [{"role": "nobody", "content": ""}]}, "input[0].role"),
        ({"input": [{"role": "user", "content": 5}]}, "input[0].content"),
        (
            {"input": [{"role": "user", "content": [{"type": "input_image"}]}]},
            "input[0].content[0].type",
        ),
        ({"input": [{"type": "item_reference", "id": "x"}]}, "input[0].type"),
        (
            {"input": [{"type": "function_call_output", "call_id": "x", "output": "y"}]},
            "input[0].call_id",
        ),
        ({"tools": [{"type": "web_search"}]}, "tools[0].type"),
        ({"tools": TOOLS, "tool_choice": {"type": "function", "name": "nope"}}, "tool_choice"),
        ({"text": {"format": {"type": "xml"}}}, "text.format.type"),
        ({"background": True}, "background"),
        ({"max_output_tokens": 5000}, "input"),
        ({"reasoning": {"effort": "huge"}}, "reasoning.effort"),
    ],
)
def test_bad_request_names_its_field(
    sdk: openai.OpenAI, fields: dict[str, Any], param: str, stream: bool
) -> None:
    create: Any = sdk.responses.create
    with pytest.raises(openai.BadRequestError) as caught:
        create(**{"model": "echo", "input": "Hi", "stream": stream, **fields})
    assert caught.value.param == param
