"""Bytes that become text: none lost, none repeated, none that is no text."""

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from refloat.testing.client import Answer
from refloat.testing.harness import Server

pytestmark = pytest.mark.process

CHAT = "/v1/chat/completions"
ErrorOf = Callable[[Answer], dict[str, Any]]

TEXTS = [
    "I don't think it's what he'd've said, isn't it ?",
    "'single' \"double\" `code` « guillemets » „low“",
    "def f(x):\n    return {'a': [x, \"b\"]}  # 100 %",
    "𠮷野家で食べた。東京の 🚲 は 速い。",
    "Příliš žluťoučký kůň úpěl ďábelské ódy.",
    "नमस्ते दुनिया, क्या हाल है?",
    "👨‍👩‍👧‍👦 🇨🇿 🏳️‍🌈 e\u0301 ﷺ \u200dx",
    "line one\r\nline two\u2028line three\u0085line four\ttab",
]


#: Han, Cyrillic, Devanagari, Arabic, emoji.
SCRIPTS = [("一", "鿿"), ("а", "я"), ("अ", "ह"), ("ء", "ي"), ("🌀", "🧿")]


def in_both_modes(server: Server, model: str, prompt: str, **fields: Any) -> str:
    """The text of an answer, found to be the same in both modes."""
    client = server.client()
    answer = client.chat(prompt, model=model, **fields)
    assert answer.status == 200, answer.body
    answer.body.decode("utf-8")
    with client.chat_stream(prompt, model=model, **fields) as stream:
        transcript = stream.transcript()
    assert transcript.done
    assert transcript.text() == answer.text
    return answer.text


def sampled_text_is_valid(server: Server, count: int) -> None:
    """Answers at the highest temperature, each of them JSON in UTF-8."""
    client = server.client()

    def one(seed: int) -> str:
        answer = client.chat("Hi", model="tiny-llm", temperature=2, seed=seed, max_tokens=60)
        assert answer.status == 200, answer.body
        text: str = json.loads(answer.body.decode("utf-8"))["choices"][0]["message"]["content"]
        text.encode("utf-8")
        return text

    with ThreadPoolExecutor(8) as pool:
        texts = list(pool.map(one, range(count)))
    assert any("\ufffd" in text for text in texts)


@pytest.mark.engine
@pytest.mark.case(102)
def test_random_tokens_make_valid_text(engine: Server) -> None:
    sampled_text_is_valid(engine, 30)


@pytest.mark.soak
@pytest.mark.engine
@pytest.mark.case(102)
def test_many_random_tokens_make_valid_text(engine: Server) -> None:
    sampled_text_is_valid(engine, 1000)


@pytest.mark.case(102, 104)
@pytest.mark.parametrize(
    ("prompt", "text"),
    [
        ("Repeat: \u00c0[tail]", "\ufffd\x7f[tail]"),
        ("Repeat: \u00a0[lead]", "\ufffd\ufffd[lead]"),
        ("Repeat: \u00c0\u00c0[tail]", "\ufffd\x7f\u00c0[tail]"),
    ],
)
def test_bytes_that_are_no_text_become_replacement_characters(
    faulty: Server, prompt: str, text: str
) -> None:
    assert in_both_modes(faulty, "garbling", prompt) == text


@pytest.mark.case(102)
@pytest.mark.parametrize("limit", [1, 2, 3])
def test_character_that_the_token_limit_cuts_is_replaced(scripted: Server, limit: int) -> None:
    text = in_both_modes(scripted, "plain", "Repeat: 🚲", max_tokens=limit)
    assert set(text) == {"\ufffd"}


@pytest.mark.engine
@pytest.mark.case(103, 106)
@pytest.mark.parametrize("text", TEXTS)
def test_text_of_a_real_tokenizer_is_the_same_in_both_modes(engine: Server, text: str) -> None:
    fields = {"chat_template_kwargs": {"enable_thinking": False}}
    assert in_both_modes(engine, "tiny-scripted", f"Repeat:\n{text}", **fields)


@pytest.mark.engine
@pytest.mark.case(103)
@pytest.mark.parametrize("prompt", ["Hi", "Tell me a story", "日本語で"])
@pytest.mark.parametrize("model", ["tiny-llm", "tiny-hybrid"])
def test_gibberish_of_a_real_model_is_the_same_in_both_modes(
    engine: Server, model: str, prompt: str
) -> None:
    assert in_both_modes(engine, model, prompt, max_tokens=200)


@pytest.mark.engine
@pytest.mark.case(106)
def test_characters_that_tokens_straddle_come_out_whole(engine: Server) -> None:
    fields = {"chat_template_kwargs": {"enable_thinking": False}}
    text = in_both_modes(engine, "tiny-scripted", "Say hello in many languages", **fields)
    assert "\ufffd" not in text
    assert all(any(low <= char <= high for char in text) for low, high in SCRIPTS)


@pytest.mark.case(103, 106)
@pytest.mark.parametrize("text", TEXTS)
def test_text_said_byte_by_byte_comes_out_whole(scripted: Server, text: str) -> None:
    assert in_both_modes(scripted, "plain", f"Repeat: {text}") == text


@pytest.mark.case(104, 105)
@pytest.mark.parametrize(
    "content",
    [b"\xe6\x9d", "東京".encode("gbk"), b"\xc3\x28", b"\xff", b"\xed\xa0\xbd"],
)
@pytest.mark.parametrize("place", ["content", "model", "unknown"])
def test_body_that_is_no_utf8_is_refused(
    scripted: Server, error_of: ErrorOf, content: bytes, place: str
) -> None:
    body = b'{"model":"plain","messages":[{"role":"user","content":"Hi"}]'
    if place == "content":
        body = body.replace(b"Hi", b"Hi " + content)
    elif place == "model":
        body = body.replace(b"plain", b"plain" + content)
    else:
        body += b',"unknown":"' + content + b'"'
    answer = scripted.client().post(CHAT, body + b"}")
    assert answer.status == 400
    assert error_of(answer)["code"] is None


@pytest.mark.case(105)
@pytest.mark.parametrize("escape", [rb"\ud83d", rb"\ude00 x", rb"\ud83d\ud83d", rb"\ud83dx"])
@pytest.mark.parametrize("stream", [False, True])
def test_lone_surrogate_is_refused_or_replaced(
    scripted: Server, error_of: ErrorOf, escape: bytes, stream: bool
) -> None:
    body = b'{"model":"plain","messages":[{"role":"user","content":"Repeat: %s"}],"stream":%s}'
    answer = scripted.client().post(CHAT, body % (escape, b"true" if stream else b"false"))
    answer.body.decode("utf-8")
    if answer.status != 200:
        assert answer.status == 400
        error_of(answer)


@pytest.mark.case(105)
def test_surrogate_pair_is_a_character(scripted: Server) -> None:
    body = rb'{"model":"plain","messages":[{"role":"user","content":"Repeat: \ud83d\udeb2"}]}'
    assert scripted.client().post(CHAT, body).text == "🚲"
