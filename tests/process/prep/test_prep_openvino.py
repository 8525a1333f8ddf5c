"""The prep program on real tokenizers."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from refloat.parsing.pipeline import OutputPipeline
from refloat.parsing.vocabulary import Vocabulary
from refloat.wire.exit_codes import ChildExit
from refloat.wire.messages import pack_ids
from refloat.wire.prep_messages import Detokenize, PrepFailed, Render, Text, Tokenize

pytestmark = [pytest.mark.process, pytest.mark.engine]

DATA = Path(__file__).parents[2] / "data"
Start = Callable[..., Any]
LINE = "Příliš žluťoučký 𠜎𠜱 कृष्ण 👨‍👩‍👧‍👦 🇨🇿 don't  \t x\n"


@pytest.mark.parametrize("name", ["tiny-llm", "tiny-scripted", "tiny-hybrid"])
def test_prep_opens_a_real_model_and_knows_its_tokens(start_prep: Start, name: str) -> None:
    ready = start_prep().open(DATA / name, "openvino")
    assert ready.vocab_size == 2048
    assert ready.eos_token_ids == (2030, 2028)
    assert ready.chat_template == "chat_template.jinja"
    assert ready.chat_unavailable is None
    assert ready.table.exact
    assert not ready.table.strip_leading_space
    assert 2030 in ready.table.special_ids


def test_prep_real_text_survives_both_ways_and_by_the_gateways_own_table(
    start_prep: Start,
) -> None:
    prep = start_prep()
    vocabulary = Vocabulary.from_table(prep.open(DATA / "tiny-scripted", "openvino").table)
    [ids] = prep.ids(Tokenize(1, [LINE]))
    prep.pipe.send(Detokenize(2, pack_ids(ids)))
    assert prep.expect(Text).text == LINE
    pipeline = OutputPipeline(vocabulary)
    pieces = [pipeline.push([token]).text for token in ids]
    assert "".join(pieces) + pipeline.flush().text == LINE
    assert not any("\ufffd" in piece for piece in pieces)
    assert any(vocabulary.text_of(token) is None for token in ids)


def test_prep_real_chat_is_rendered_with_its_marks_as_single_tokens(start_prep: Start) -> None:
    prep = start_prep()
    prep.open(DATA / "tiny-scripted", "openvino")
    [ids] = prep.ids(Render(1, [{"role": "user", "content": "Hi"}]))
    prep.pipe.send(Detokenize(2, pack_ids(ids), skip_special_tokens=False))
    text = prep.expect(Text).text
    assert text.startswith("<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n")
    assert ids.count(2030) == 1


def test_prep_real_tool_turns_are_rendered(start_prep: Start) -> None:
    prep = start_prep()
    prep.open(DATA / "tiny-scripted", "openvino")
    function = {"name": "get_weather", "arguments": '{"city": "Zürich"}'}
    messages: list[dict[str, Any]] = [
        {"role": "developer", "content": "Be brief."},
        {"role": "user", "content": [{"type": "text", "text": "Weather?"}]},
        {"role": "assistant", "content": None,
         "tool_calls": [{"id": "c1", "type": "function", "function": function}]},
        {"role": "tool", "tool_call_id": "c1", "content": '{"t": 3}'},
        {"role": "assistant", "content": "", "tool_calls": []},
        {"role": "user", "content": "And tomorrow?"},
    ]  # fmt: skip
    tool: dict[str, Any] = {
        "type": "function",
        "function": {"name": "get_weather", "parameters": {}},
    }
    [ids] = prep.ids(Render(1, messages, tools=[tool]))
    prep.pipe.send(Detokenize(2, pack_ids(ids), skip_special_tokens=False))
    text = prep.expect(Text).text
    assert '{"name": "get_weather", "arguments": {"city": "Zürich"}}' in text
    assert "Be brief." in text
    assert "None" not in text


def test_prep_real_long_text_is_counted_in_full(start_prep: Start) -> None:
    prep = start_prep()
    prep.open(DATA / "tiny-llm", "openvino")  # its context is 4,096 tokens
    [one, many] = prep.ids(Tokenize(1, ["hello world\n" * 10, "hello world\n" * 10_000]))
    assert len(many) == 1000 * len(one)


def test_prep_real_odd_texts_are_tokenized(start_prep: Start) -> None:
    prep = start_prep()
    prep.open(DATA / "tiny-llm", "openvino")
    texts = ["", " ", "\0", "a\0", "\x00\x00b", "\ufeff", "e\u0301", "\U0010ffff"]
    for text, ids in zip(texts, prep.ids(Tokenize(1, texts)), strict=True):
        prep.pipe.send(Detokenize(2, pack_ids(ids)))
        assert prep.expect(Text).text == text.replace("e\u0301", "é")  # this tokenizer composes


@pytest.mark.parametrize(
    ("file", "content", "reason"),
    [
        ("openvino_tokenizer.xml", None, "openvino_tokenizer.xml"),
        ("openvino_detokenizer.xml", None, "openvino_detokenizer.xml"),
        ("openvino_tokenizer.xml", "<net", "cannot be read"),
        ("config.json", "{", "config.json"),
    ],
)
def test_prep_real_model_with_a_broken_file_says_which_and_leaves(
    start_prep: Start, tmp_path: Path, file: str, content: str | None, reason: str
) -> None:
    _copy(tmp_path)
    (tmp_path / file).unlink()
    if content is not None:
        (tmp_path / file).write_text(content, encoding="utf-8")
    prep = start_prep()
    prep.configure(tmp_path, "openvino")
    assert reason in prep.expect(PrepFailed).message
    code, log = prep.ended()
    assert code == ChildExit.LOAD_FAILED
    assert reason in log


def test_prep_real_model_without_template_file_uses_the_graphs_notes(
    start_prep: Start, tmp_path: Path
) -> None:
    _copy(tmp_path)
    (tmp_path / "chat_template.jinja").unlink()
    assert start_prep().open(tmp_path, "openvino").chat_template == "rt_info"


def _copy(folder: Path) -> None:
    for path in (DATA / "tiny-llm").iterdir():
        if not path.name.startswith("openvino_model"):
            shutil.copy(path, folder)
