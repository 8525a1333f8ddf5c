"""What a model folder's files say: templates by precedence, end tokens, names of special tokens."""

import json
from pathlib import Path
from typing import Any

import pytest

from refloat.prep.error import PrepError
from refloat.prep.facts import ModelFacts
from refloat.prep.sources import TemplateSource, find_template
from refloat.prep.table import TokenBytes

TABLE = TokenBytes([b"a", b"<s>", b"</s>", b"<|im_end|>", b"b"], frozenset({1, 2, 3}))


def facts(folder: Path, *, notes: dict[str, str] | None = None, **files: Any) -> ModelFacts:
    for name, value in files.items():
        (folder / f"{name}.json").write_text(json.dumps(value), encoding="utf-8")
    return ModelFacts(folder, (notes or {}).get)


def template(model: ModelFacts, chosen: str | None = None) -> TemplateSource:
    found = find_template(model, chosen)
    assert found is not None
    return found


def test_template_is_found_by_precedence(tmp_path: Path) -> None:
    model = facts(
        tmp_path,
        notes={"chat_template": "notes"},
        tokenizer_config={"chat_template": "config"},
        gguf={"chat_template": "gguf"},
    )
    (tmp_path / "chat_template.jinja").write_text("file", encoding="utf-8")
    (tmp_path / "mine.jinja").write_text("mine", encoding="utf-8")
    assert template(model, str(tmp_path / "mine.jinja")) == TemplateSource("mine.jinja", "mine")
    assert template(model) == TemplateSource("chat_template.jinja", "file")
    (tmp_path / "chat_template.jinja").unlink()
    assert template(model) == TemplateSource("tokenizer_config.json", "config")
    model.tokenizer_config.clear()
    assert template(model) == TemplateSource("rt_info", "notes")
    (tmp_path / "tokenizer_config.json").unlink()
    assert template(facts(tmp_path)) == TemplateSource("gguf.json", "gguf")
    (tmp_path / "gguf.json").unlink()
    assert find_template(facts(tmp_path), None) is None


@pytest.mark.parametrize(
    "value",
    [
        [{"name": "default", "template": "d"}, {"name": "tool_use", "template": "t"}],
        {"default": "d", "tool_use": "t"},
    ],
)
def test_template_of_several_the_one_for_tools_is_kept_apart(tmp_path: Path, value: Any) -> None:
    model = facts(tmp_path, tokenizer_config={"chat_template": value})
    assert template(model) == TemplateSource("tokenizer_config.json", "d", "t")


def test_template_of_several_without_a_default_takes_the_first(tmp_path: Path) -> None:
    value = [{"name": "x", "template": "1"}, {"name": "y", "template": "2"}]
    assert template(facts(tmp_path, tokenizer_config={"chat_template": value})).text == "1"


def test_template_file_beside_one_for_tools_gives_both(tmp_path: Path) -> None:
    (tmp_path / "chat_template.jinja").write_text("d", encoding="utf-8")
    (tmp_path / "additional_chat_templates").mkdir()
    (tmp_path / "additional_chat_templates" / "tool_use.jinja").write_text("t", encoding="utf-8")
    assert template(facts(tmp_path)).with_tools == "t"


@pytest.mark.parametrize("value", [None, "", [], {}])
def test_template_that_is_empty_is_none(tmp_path: Path, value: Any) -> None:
    assert find_template(facts(tmp_path, tokenizer_config={"chat_template": value}), None) is None


def test_template_chosen_but_missing_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(PrepError, match=r"nowhere\.jinja"):
        find_template(facts(tmp_path), str(tmp_path / "nowhere.jinja"))


def test_template_of_a_wrong_type_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(PrepError, match="tokenizer_config"):
        find_template(facts(tmp_path, tokenizer_config={"chat_template": 7}), None)


def test_file_that_is_no_json_is_named(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{", encoding="utf-8")
    with pytest.raises(PrepError, match=r"config\.json"):
        facts(tmp_path)


def test_file_with_infinity_is_read_as_transformers_writes_it(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"limit": [0.0, Infinity], "eos_token_id": 2}')
    assert facts(tmp_path).eos_ids(TABLE) == (2,)


def test_end_tokens_are_those_of_every_file(tmp_path: Path) -> None:
    model = facts(
        tmp_path,
        notes={"eos_token_id": "2"},
        generation_config={"eos_token_id": [3, 2]},
        config={"eos_token_id": None, "text_config": {"eos_token_id": 4}},
        tokenizer_config={"eos_token": {"content": "</s>"}},
    )
    assert model.eos_ids(TABLE) == (3, 2, 4)


def test_end_tokens_outside_the_vocabulary_are_left_out(tmp_path: Path) -> None:
    model = facts(tmp_path, notes={"eos_token_id": "[3, 99]"}, config={"eos_token_id": True})
    assert model.eos_ids(TABLE) == (3,)


def test_beginning_token_is_the_tokenizers_own_first(tmp_path: Path) -> None:
    model = facts(
        tmp_path, generation_config={"bos_token_id": 4}, tokenizer_config={"bos_token": "<s>"}
    )
    assert model.bos_id(TABLE) == 1
    assert facts(tmp_path, tokenizer_config={"bos_token": None}).bos_id(TABLE) == 4


def test_special_texts_null_is_empty_and_objects_are_their_content(tmp_path: Path) -> None:
    model = facts(
        tmp_path,
        notes={"pad_token_id": "3"},
        tokenizer_config={"bos_token": None, "eos_token": {"content": "</s>", "lstrip": False}},
    )
    assert model.special_texts(TABLE) == {
        "bos_token": "",
        "eos_token": "</s>",
        "unk_token": "",
        "pad_token": "<|im_end|>",
    }


def test_table_decodes_marks_only_when_asked() -> None:
    assert TABLE.decode([1, 0, 4, 2, 99, -1]) == "ab"
    assert TABLE.decode([1, 0, 4, 2], skip_special=False) == "<s>ab</s>"


def test_table_that_strips_takes_one_space() -> None:
    table = TokenBytes([b" a", b" "], frozenset(), strip_leading_space=True)
    assert table.decode([1, 0, 0]) == " a a"


def test_table_broken_bytes_become_replacement_characters() -> None:
    assert TokenBytes([b"\xc3", b"("], frozenset()).decode([0, 1]) == "\ufffd("


def test_table_on_the_wire_holds_the_same_words() -> None:
    wire = TABLE.wire()
    assert wire.blob == b"a<s></s><|im_end|>b"
    assert wire.special_ids == (1, 2, 3)
