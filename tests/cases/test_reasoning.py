"""Reasoning through the whole server: told apart from the answer, streamed and whole."""

import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from refloat.testing.client import Client
from refloat.testing.harness import Server

pytestmark = pytest.mark.process

TEXTS = {
    "open": "thoughts\n</think>\n\nanswer",
    "plan": "plan</think>Result",
    "quote": "the tag '</think>' ends it</think>ok",
    "never": "thinking on and on",
    "form": 'a {brace} first</think>\n\n{"a": [1, "</think>"]}',
    "formless": "thoughts</think>no JSON at all",
}
TEMPLATE = textwrap.dedent("""\
    {%- for m in messages %}<|im_start|>{{ m.role }}
    {{ m.content }}<|im_end|>
    {% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
    {% if enable_thinking is not defined or enable_thinking %}<think>
    {% else %}<think></think>
    {% endif %}{% endif %}""")


@pytest.fixture(scope="module")
def thinker_server(
    start_server: Callable[..., Server], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    template: Path = tmp_path_factory.mktemp("template") / "chat.jinja"
    template.write_text(TEMPLATE)
    rules: list[dict[str, Any]] = []
    for name, text in TEXTS.items():
        for word, chunk in (("", 3), (" whole", 0), (" single", 1)):
            rules.append({"match": f"^{name}{word}\\s*$", "text": text, "chunk": chunk})
    rules.append({"match": "kill", "text": TEXTS["open"], "chunk": 1})
    model = {
        "model": "scripted",
        "name": "thinker",
        "chat_template": str(template),
        "engine_options": {"rules": rules},
        "faults": [{"at": "token", "token": 12, "kind": "kill", "match": "[kill]"}],
    }
    with start_server(config={"models": [model]}) as server:
        yield server


@pytest.fixture
def client(thinker_server: Server, serves: Callable[[Server], None]) -> Iterator[Client]:
    yield thinker_server.client()
    serves(thinker_server)


def fields_of(client: Client, content: str, **fields: Any) -> tuple[str, str, str]:
    """(reasoning, content, finish reason), the same in both modes."""
    [choice] = client.chat(content, **fields).json()["choices"]
    message = choice["message"]
    with client.chat_stream(content, **fields) as stream:
        told = stream.transcript()
    assert told.text() == message["content"]
    assert told.reasoning() == message.get("reasoning_content", "")
    assert told.finish_reasons() == [(0, choice["finish_reason"])]
    return told.reasoning(), told.text(), choice["finish_reason"]


@pytest.mark.case(85)
def test_block_that_the_prompt_opened_is_reasoning(client: Client) -> None:
    assert fields_of(client, "open") == ("thoughts", "answer", "stop")


@pytest.mark.case(89)
def test_schema_and_reasoning_go_together(client: Client) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "array"}}, "required": ["a"]}
    form = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}
    told = fields_of(client, "form", response_format=form)
    assert told == ("a {brace} first", '{"a": [1, "</think>"]}', "stop")
    refused = client.chat("formless", response_format=form)
    assert refused.status == 400
    assert "does not keep to" in refused.json()["error"]["message"]


@pytest.mark.case(85)
def test_without_thinking_all_is_the_answer(client: Client) -> None:
    off = {"chat_template_kwargs": {"enable_thinking": False}}
    assert fields_of(client, "never", **off) == ("", TEXTS["never"], "stop")


@pytest.mark.case(86)
@pytest.mark.parametrize("word", ["", " whole", " single"])
def test_fields_do_not_depend_on_how_the_text_is_cut(client: Client, word: str) -> None:
    assert fields_of(client, f"plan{word}") == ("plan", "Result", "stop")


@pytest.mark.case(88)
def test_quoted_closing_tag_loses_no_character(client: Client) -> None:
    assert fields_of(client, "quote") == ("the tag '", "' ends it</think>ok", "stop")


@pytest.mark.case(85)
def test_answer_that_never_closes_its_block_is_all_reasoning(client: Client) -> None:
    assert fields_of(client, "never") == (TEXTS["never"], "", "stop")
    assert fields_of(client, "never", max_tokens=2) == (TEXTS["never"][:6].rstrip(), "", "length")


@pytest.mark.case(56)
def test_every_choice_has_its_own_reasoning(client: Client) -> None:
    choices = client.chat("open", n=2).json()["choices"]
    messages = [choice["message"] for choice in choices]
    assert [m["reasoning_content"] for m in messages] == ["thoughts"] * 2
    assert [m["content"] for m in messages] == ["answer"] * 2


@pytest.mark.case(86)
def test_reasoning_goes_on_where_its_worker_died(client: Client) -> None:
    answer = client.chat("[kill]")
    assert answer.text == "answer"
    assert answer.json()["choices"][0]["message"]["reasoning_content"] == "thoughts"
    assert client.metric("refloat_worker_restarts_total", model="thinker") == 1


@pytest.mark.engine
@pytest.mark.case(90)
def test_turn_after_a_tools_result_is_split_as_the_first(engine: Server) -> None:
    client = engine.client()
    made = {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    messages = [
        {"role": "user", "content": "Go"},
        {"role": "assistant", "content": None, "tool_calls": [made]},
        {"role": "tool", "tool_call_id": "a", "content": "42"},
    ]
    fields = {"model": "tiny-scripted", "messages": messages}
    whole = client.chat("", **fields).json()["choices"][0]["message"]
    with client.chat_stream("", **fields) as stream:
        told = stream.transcript()
    assert whole["reasoning_content"] == told.reasoning() != ""
    assert whole["content"] == told.text()
    assert "think>" not in told.text() + told.reasoning()


@pytest.mark.case(85)
@pytest.mark.parametrize("content", ["open single", "kill"])
def test_tokens_of_reasoning_are_counted_in_every_dialect(client: Client, content: str) -> None:
    usage = client.chat(content, chat_template_kwargs={"enable_thinking": True}).json()["usage"]
    # one character each: the thoughts, the closing mark and the space behind it; not the answer
    thought = len("thoughts\n</think>\n\n")
    assert usage["completion_tokens_details"] == {"reasoning_tokens": thought}
    assert usage["completion_tokens"] == thought + len("answer") + 1
    with client.chat_stream(content, stream_options={"include_usage": True}) as stream:
        told = stream.transcript()
    assert told.usage is not None
    assert told.usage["completion_tokens_details"] == {"reasoning_tokens": thought}
    body = {"model": "thinker", "input": content}
    usage = client.post("/v1/responses", body).json()["usage"]
    assert usage["output_tokens_details"] == {"reasoning_tokens": thought}
