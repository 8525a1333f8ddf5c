"""Calls of tools through the whole server, streamed and whole, over faults as well."""

import json
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from refloat.testing.client import Answer, Client
from refloat.testing.harness import Server

pytestmark = pytest.mark.process

CHAT = "/v1/chat/completions"
ErrorOf = Callable[[Answer], dict[str, Any]]


def _tool(name: str, **properties: Any) -> dict[str, Any]:
    parameters = {"type": "object", "properties": properties}
    return {"type": "function", "function": {"name": name, "parameters": parameters}}


TOOLS = [
    _tool("get_weather", city={"type": "string"}, days={"type": "integer"}),
    _tool("run", command={"type": "string"}),
    _tool("ping"),
]


def call(name: str, **arguments: Any) -> str:
    """A call as the scripted model writes it by its template."""
    body = json.dumps({"name": name, "arguments": arguments}, ensure_ascii=False)
    return f"<tool_call>\n{body}\n</tool_call>"


NASTY = 'Zürich 東京 🚲 printf ${HOME "x" \\ </tool_call>\n'
LONG = call("run", command="x" * 120, more=[1, {"a": None}])
TEXTS = {
    "weather": call("get_weather", city=NASTY, days=3),
    "both": f"A{call('ping')}B{call('get_weather', city='Oslo')}C",
    "last": call("get_weather", city="a", days=5),
    "bare": call("ping"),
    "long": LONG,
    "thrice": call("ping") * 3,
    "stranger": f"So: {call('nobody', city='Oslo')}",
    "sample": '{"name": "get_weather", "arguments": {"city": "Oslo"}}',
}
CHUNKS = {"": 3, " whole": 0, " bytes": "bytes"}
RULES = [
    {"match": f"^{name}{word}\\s*$", "text": text, "chunk": chunk}
    for name, text in TEXTS.items()
    for word, chunk in CHUNKS.items()
]

CODER = (
    "<tool_call>\n<function=get_weather>\n<parameter=city>\n5\n<parameter=days>\n5\n</parameter>\n"
    "</function>\n</tool_call>"
)
MISTRAL = {
    "list": '[TOOL_CALLS][{"name": "ping", "arguments": {}}, {"name": "ping", "arguments": {}}]',
    "named": "[TOOL_CALLS]ping[ARGS]{}[TOOL_CALLS]ping[ARGS]{}",
}
HARMONY = {
    "odd": "<|start|><|start|>assistant to=functions.ping<|channel|>commentary<|message|>{}",
    "plain": "<|channel|>analysis<|message|>hm<|end|><|start|>assistant<|channel|>final"
    "<|message|>Hello",
}


@pytest.fixture(scope="module")
def callers_server(start_server: Callable[..., Server]) -> Iterator[Server]:
    def model(name: str, parser: str | None, texts: dict[str, str], **more: Any) -> dict[str, Any]:
        rules = [{"match": f"^{key}$", "text": text} for key, text in texts.items()]
        chosen = {"tool_parser": parser} if parser else {}
        options = {"engine_options": {"rules": rules}}
        return {"model": "scripted", "name": name, **options, **chosen, **more}

    killed = {"at": "token", "token": 20, "kind": "kill", "match": "[kill]"}
    models = [
        {"model": "scripted", "name": "m", "engine_options": {"rules": RULES}},
        model("coder", "qwen3_coder", {"go": CODER}),
        model("mistral", "mistral", MISTRAL),
        model("harmony", "gpt_oss", HARMONY, reasoning_parser="gpt_oss"),
        model("mute", "none", {"go": TEXTS["bare"]}),
        {
            "model": "scripted",
            "name": "frail",
            "engine_options": {"rules": [{"match": "kill", "text": LONG}]},
            "faults": [killed],
        },
    ]
    with start_server(config={"models": models}) as server:
        yield server


@pytest.fixture
def client(callers_server: Server, serves: Callable[[Server], None]) -> Iterator[Client]:
    yield callers_server.client()
    serves(callers_server)


class Both:
    """One request, whole and streamed, which say the same."""

    def __init__(self, client: Client, content: str, **fields: Any) -> None:
        fields = {"model": "m", "tools": TOOLS, **fields}
        self.whole = client.chat(content, **fields)
        assert self.whole.status == 200, self.whole.body
        with client.chat_stream(content, **fields) as stream:
            self.stream = stream.transcript()
        [choice] = self.whole.json()["choices"]
        self.message, self.reason = choice["message"], choice["finish_reason"]
        self.content = self.message["content"]
        self.calls = self.whole.calls
        assert self.stream.done
        assert self.stream.finish_reasons() == [(0, self.reason)]
        assert self.stream.text() == (self.content or "")
        assert self.stream.reasoning() == self.message.get("reasoning_content", "")
        assert self.stream.calls() == self.calls


@pytest.mark.case(44, 57, 65, 67)
@pytest.mark.parametrize("chunk", ["", " whole", " bytes"])
def test_nasty_string_arrives_once_and_exactly(client: Client, chunk: str) -> None:
    both = Both(client, f"weather{chunk}")
    [(name, arguments)] = both.calls
    assert name == "get_weather"
    assert json.loads(arguments) == {"city": NASTY, "days": 3}
    assert both.content is None
    assert both.reason == "tool_calls"


@pytest.mark.case(60, 75)
@pytest.mark.parametrize("chunk", ["", " whole", " bytes"])
def test_text_between_calls_is_kept_however_it_is_cut(client: Client, chunk: str) -> None:
    both = Both(client, f"both{chunk}")
    assert both.content == "ABC"
    assert both.calls == [("ping", "{}"), ("get_weather", '{"city": "Oslo"}')]


@pytest.mark.case(63, 64)
def test_last_value_and_no_value_have_their_braces(client: Client) -> None:
    assert Both(client, "last whole").calls == [("get_weather", '{"city": "a", "days": 5}')]
    assert Both(client, "bare").calls == [("ping", "{}")]


@pytest.mark.case(61)
def test_call_that_the_limit_cuts_is_an_exact_prefix(client: Client) -> None:
    [(_, full)] = Both(client, "long").calls
    lengths: set[int] = set()
    for limit in range(5, 60, 9):
        both = Both(client, "long", max_tokens=limit)
        assert both.reason == "length"
        assert "<tool_call>" not in (both.content or "")
        for name, arguments in both.calls:
            assert name == "run"
            assert full.startswith(arguments)
            lengths.add(len(arguments))
    assert len(lengths) > 3


@pytest.mark.case(58)
def test_format_that_is_not_known_is_refused_before_anything_is_said(
    client: Client, error_of: ErrorOf
) -> None:
    for stream in (False, True):
        error = error_of(client.chat("go", model="mute", tools=TOOLS, stream=stream))
        assert error["param"] == "tools"
        assert "tool_parser" in error["message"]
    plain = client.chat("go", model="mute", tools=TOOLS, tool_choice="none")
    assert plain.text == TEXTS["bare"]
    assert "tool_calls" not in plain.json()["choices"][0]["message"]


@pytest.mark.case(62, 77)
def test_marks_of_channels_are_never_shown_and_end_nothing(client: Client) -> None:
    plain = Both(client, "plain", model="harmony")
    assert (plain.content, plain.message["reasoning_content"]) == ("Hello", "hm")
    odd = Both(client, "odd", model="harmony")
    assert odd.calls == [("ping", "{}")]
    history = [
        {"role": "user", "content": "plain"},
        {"role": "assistant", "content": plain.content},
        {"role": "user", "content": "plain"},
    ]
    assert client.post(CHAT, {"model": "harmony", "messages": history}).status == 200


@pytest.mark.case(68)
def test_no_choice_means_no_call_in_both_modes(client: Client) -> None:
    both = Both(client, "bare", tool_choice="none")
    assert both.calls == []
    assert both.reason == "stop"
    assert both.content == TEXTS["bare"]


@pytest.mark.case(74, 84)
def test_first_delta_of_a_call_has_all_and_ids_are_unique(client: Client) -> None:
    ids: list[str] = []
    for _ in range(5):
        with client.chat_stream("both whole", model="m", tools=TOOLS) as stream:
            events = stream.transcript().events
        deltas = [event["choices"][0]["delta"] for event in events]
        calls = [call for delta in deltas for call in delta.get("tool_calls") or ()]
        firsts = [call for call in calls if "id" in call]
        assert [(call["index"], call["type"]) for call in firsts] == [
            (0, "function"),
            (1, "function"),
        ]
        assert all(call["function"]["name"] for call in firsts)
        ids += [call["id"] for call in firsts]
    assert len(set(ids)) == 10


@pytest.mark.case(76)
def test_parameter_without_its_closing_tag_swallows_nothing(client: Client) -> None:
    [(_, arguments)] = Both(client, "go", model="coder").calls
    assert json.loads(arguments) == {"city": "5", "days": 5}


@pytest.mark.case(78)
def test_without_tools_a_call_is_text(client: Client) -> None:
    for chunk in ("", " whole"):
        answer = client.chat(f"both{chunk}", model="m")
        assert answer.text == TEXTS["both"]
        assert answer.json()["choices"][0]["finish_reason"] == "stop"


@pytest.mark.case(14, 79)
@pytest.mark.parametrize("name", ["stranger", "sample"])
def test_what_nobody_declared_stays_text(client: Client, name: str) -> None:
    both = Both(client, name)
    assert both.content == TEXTS[name]
    assert "tool_calls" not in both.message
    assert both.reason == "stop"


@pytest.mark.case(81)
def test_both_formats_of_one_family_are_the_same_calls(client: Client) -> None:
    for name in MISTRAL:
        both = Both(client, name, model="mistral")
        assert both.calls == [("ping", "{}")] * 2
        assert both.content is None
        assert all(len(call["id"]) == 9 for call in both.message["tool_calls"])


@pytest.mark.case(82)
def test_one_call_is_all_where_one_is_wanted(client: Client) -> None:
    both = Both(client, "thrice", parallel_tool_calls=False)
    assert both.calls == [("ping", "{}")]
    assert both.reason == "tool_calls"
    assert both.whole.json()["usage"]["completion_tokens"] < len(TEXTS["thrice"]) / 3


@pytest.mark.case(83)
def test_stop_strings_change_no_call(client: Client) -> None:
    assert Both(client, "weather", stop=["\n\nUser:"]).calls == Both(client, "weather").calls


@pytest.mark.case(83)
def test_stop_string_inside_a_call_cuts_it(client: Client) -> None:
    both = Both(client, "long", stop=["xxx"])
    assert both.calls == [("run", '{"command": "')]
    assert both.reason == "stop"


@pytest.mark.case(56, 84)
def test_several_choices_have_calls_of_their_own(client: Client) -> None:
    answer = client.chat("both", model="m", tools=TOOLS, n=3)
    messages = [choice["message"] for choice in answer.json()["choices"]]
    ids = [call["id"] for message in messages for call in message["tool_calls"]]
    assert len(set(ids)) == 6


@pytest.mark.case(57)
def test_call_goes_on_where_its_worker_died(client: Client) -> None:
    [(_, arguments)] = Both(client, "[kill]", model="frail").calls
    assert arguments == json.dumps({"command": "x" * 120, "more": [1, {"a": None}]})
    assert client.metric("refloat_worker_restarts_total", model="frail") == 1


@pytest.mark.case(57)
def test_log_probabilities_come_with_calls(client: Client) -> None:
    answer = client.chat("bare", model="m", tools=TOOLS, logprobs=True)
    tokens = answer.json()["choices"][0]["logprobs"]["content"]
    assert bytes(byte for token in tokens for byte in token["bytes"]).decode() == TEXTS["bare"]


@pytest.mark.case(83)
def test_stop_logprobs_and_several_choices_go_with_tools(client: Client) -> None:
    fields: Any = {"model": "m", "tools": TOOLS, "n": 2, "logprobs": True, "stop": ["xxx"]}
    for content, reason in (("both", "tool_calls"), ("long", "stop")):
        plain = Both(client, content, stop=["xxx"])
        whole = client.chat(content, **fields).json()["choices"]
        with client.chat_stream(content, **fields) as stream:
            told = stream.transcript()
        assert sorted(told.finish_reasons()) == [(0, reason), (1, reason)]
        ids = [call["id"] for choice in whole for call in choice["message"]["tool_calls"]]
        assert len(set(ids)) == len(ids)
        for choice in whole:
            index, message = choice["index"], choice["message"]
            assert choice["finish_reason"] == reason
            assert (message["content"] or "") == told.text(index) == (plain.content or "")
            assert told.calls(index) == plain.calls
            assert [call["function"]["name"] for call in message["tool_calls"]] == [
                name for name, _ in plain.calls
            ]
            streamed = [
                token["bytes"]
                for event in told.events
                for one in event["choices"]
                if one["index"] == index and one["logprobs"]
                for token in one["logprobs"]["content"]
            ]
            assert streamed == [token["bytes"] for token in choice["logprobs"]["content"]]


@pytest.mark.engine
@pytest.mark.case(72)
def test_real_reasoning_model_thinks_and_calls(engine: Server) -> None:
    client = engine.client()
    both = Both(client, "What is the weather in Paris and Tokyo?", model="tiny-scripted")
    assert [json.loads(arguments) for _, arguments in both.calls] == [
        {"city": "Paris"},
        {"city": "Tokyo"},
    ]
    assert both.content is None
    assert "<think>" not in both.message["reasoning_content"]
    assert both.message["reasoning_content"]
    assert both.reason == "tool_calls"
    history = [
        {"role": "user", "content": "What is the weather in Paris and Tokyo?"},
        both.message,
        *(
            {"role": "tool", "tool_call_id": made["id"], "content": "sunny"}
            for made in both.message["tool_calls"]
        ),
    ]
    body = {"model": "tiny-scripted", "messages": history, "tools": TOOLS}
    answer = client.post(CHAT, body)
    assert answer.status == 200
    assert "sunny" in answer.text


@pytest.mark.case(58)
def test_template_of_ones_own_names_the_format(
    start_server: Callable[..., Server], tmp_path: Path
) -> None:
    template = tmp_path / "chat.jinja"
    template.write_text(
        textwrap.dedent("""\
        {%- for m in messages %}<|im_start|>{{ m.role }}
        {{ m.content }}<|im_end|>
        {% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
        {% endif %}{# [TOOL_CALLS] name [ARGS] #}""")
    )
    rules = [{"match": "named", "text": MISTRAL["named"]}]
    model = {"model": "scripted", "name": "m", "engine_options": {"rules": rules}}
    config = {"models": [{**model, "chat_template": str(template)}]}
    with start_server(config=config) as server:
        assert Both(server.client(), "named").calls == [("ping", "{}")] * 2
