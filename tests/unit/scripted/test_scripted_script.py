"""What the scripted model says."""

from pathlib import Path

import pytest

from refloat.scripted.script import (
    FALLBACK,
    HELLO,
    Rule,
    Script,
    ScriptError,
    load_script,
    parse_rules,
    pieces,
)


@pytest.mark.parametrize(
    ("message", "text"),
    [
        ("Repeat: a b", "a b"),
        ("Repeat:\nline one\nline two", "line one\nline two"),
        ("Repeat:", ""),
        ("Count from 3 to 6", "3 4 5 6"),
        ("Count from 6 to 3", ""),
        ("Hi", HELLO),
        ("hello there", HELLO),
        ("History", FALLBACK),
        ("anything else", FALLBACK),
        ("", FALLBACK),
    ],
)
def test_built_in_answers(message: str, text: str) -> None:
    assert Script().answer(message).choices == (text,)


def test_first_matching_rule_answers_and_the_built_in_ones_come_last() -> None:
    script = Script([Rule("cat", text="one"), Rule("cat|dog", text="two")])
    assert script.answer("a cat").choices == ("one",)
    assert script.answer("a dog").choices == ("two",)
    assert script.answer("Hi").choices == (HELLO,)


@pytest.mark.parametrize(
    ("chunk", "expected"),
    [
        (3, ["aé🙂", "z"]),
        (1, ["a", "é", "🙂", "z"]),
        (0, ["aé🙂z"]),
    ],
)
def test_pieces_hold_so_many_characters(chunk: int, expected: list[str]) -> None:
    assert [piece.decode() for piece in pieces("aé🙂z", chunk)] == expected


def test_pieces_of_bytes_hold_one_each() -> None:
    assert pieces("é", "bytes") == [b"\xc3", b"\xa9"]


def test_file_is_read_as_a_list_of_rules(tmp_path: Path) -> None:
    path = tmp_path / "script.yaml"
    path.write_text('- {match: "^x", text: "y", chunk: bytes, finish: length}\n')
    answer = load_script(path).answer("x")
    assert answer == (("y",), "bytes", "length")


def test_no_path_is_the_built_in_script() -> None:
    assert load_script(None).rules == ()
    assert load_script("").rules == ()


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ("text", ("list",)),
        ([{"match": "x"}], ("rule 0", "text")),
        ([{"match": "x", "text": "a", "texts": ["b"]}], ("rule 0", "texts")),
        ([{"match": "x", "text": "a"}, {"text": "a"}], ("rule 1", "match")),
        ([{"match": "x", "text": "a", "chunk": -1}], ("rule 0", "chunk")),
        ([{"match": "x", "text": "a", "finish": "end"}], ("rule 0", "finish")),
        ([{"match": "x", "text": "a", "speed": 1}], ("rule 0", "speed")),
    ],
)
def test_script_that_cannot_be_used_names_rule_and_field(
    document: object, words: tuple[str, ...]
) -> None:
    with pytest.raises(ScriptError) as refused:
        parse_rules(document)
    assert all(word in str(refused.value) for word in words)


def test_script_with_a_bad_expression_names_the_rule() -> None:
    with pytest.raises(ScriptError, match="rule 0: `match`"):
        Script([Rule("(", text="a")])


@pytest.mark.parametrize("content", [b"- {", b"\xff\xfe\x00"])
def test_file_that_is_no_yaml_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "script.yaml"
    path.write_bytes(content)
    with pytest.raises(ScriptError, match="script"):
        load_script(path)


def test_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ScriptError, match="nothing"):
        load_script(tmp_path / "nothing.yaml")
