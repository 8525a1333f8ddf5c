"""Callers' EBNF read into grammars; our own EBNF, which says the same as the grammar it is of."""

import random
import re

import pytest

from refloat.grammar.ebnf import from_ebnf
from refloat.grammar.errors import GrammarError
from refloat.grammar.grammar import Grammar
from refloat.grammar.json_schema import any_json, from_json_schema
from refloat.grammar.nodes import Literal, Reference, char_class, choice, repeat, sequence
from refloat.grammar.residual import matches
from refloat.grammar.words import word

_GBNF = r"""
# lists of words
root  ::= item ("," ws item)*   # the rest
item  ::= [a-z]+ | "\"" [^"\\\n]* "\"" |
          number{1,3} | "\u00e9"
number ::= ("-"? [0-9]) "."
ws ::= | " " ws
"""


def test_callers_grammar_is_read() -> None:
    grammar = from_ebnf(_GBNF)
    for text in ("ab", 'x,  "é\t",1.-2.', "é", '""'):
        assert matches(grammar, text), text
    for text in ("", "ab,", '"\n"', "1.2.3.4.", "E"):
        assert not matches(grammar, text), text


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ('item ::= "a"', None),
        ('root ::= "a', "line 1"),
        ("root ::= item", None),
        ('root ::= "a"\nroot ::= "b"', "line 2"),
        ('root ::= ("a"', "line 1"),
        ('root ::= "a"\n\n) x', "line 3"),
        ('root ::= (= "a") "b"', "line 1"),
        ("root ::= root", None),
        ('root ::= [z-a] "x"', "line 1"),
        ('root ::= "\\q"', "line 1"),
        ("", None),
        ('root ::= "a"{3,1}', "line 1"),
        ('root ::= "a" @', "line 1"),
        ("root ::= " + "(" * 30_000, None),
    ],
    ids=lambda value: str(value)[:30],
)
def test_callers_grammar_that_is_wrong_is_refused(text: str, line: str | None) -> None:
    with pytest.raises(GrammarError) as caught:
        from_ebnf(text)
    assert line is None or line in caught.value.message


GRAMMARS = {
    "json": any_json(),
    "schema": from_json_schema(
        {"properties": {"a": {"maxLength": 5, "minLength": 2, "type": "string"}}, "required": ["a"]}
    ),
    "escapes": Grammar(
        {
            "root": sequence(
                Literal('"\\\n\t\r\x07é😀]^-['), char_class(((0x5B, 0x5E), (0x2D, 0x2D)))
            )
        }
    ),
    "names": Grammar(
        {
            "start-here": choice(Reference("root"), Reference("Token"), Reference("true")),
            "root": Literal("r"),
            "Token": repeat(Literal("t"), 2, 5),
            "true": repeat(choice(Literal("u"), Literal("v")), 3, None),
        },
        "start-here",
    ),
}


@pytest.mark.parametrize("name", GRAMMARS)
def test_ebnf_says_the_same_as_its_grammar(name: str) -> None:
    grammar = GRAMMARS[name]
    read = from_ebnf(grammar.to_ebnf())
    for seed in range(6):
        text = word(grammar, random.Random(seed), 60)
        assert matches(read, text)
        text = word(read, random.Random(seed), 60)
        assert matches(grammar, text)


def test_ebnf_begins_with_root_and_no_rule_has_a_word_of_the_engines() -> None:
    lines = GRAMMARS["names"].to_ebnf().splitlines()
    names = [line.split(" ::= ")[0] for line in lines]
    assert names[0] == "root"
    assert len(set(names)) == len(names)
    assert not {"Token", "true", "start-here"} & set(names)


@pytest.mark.parametrize(("least", "most"), [(0, 64), (3, 65), (0, 200), (130, 200), (7, 4500)])
def test_long_repetition_in_blocks_has_the_same_counts(least: int, most: int) -> None:
    grammar = from_ebnf(Grammar({"root": repeat(Literal("x"), least, most)}).to_ebnf())
    around = {0, 1, 63, 64, 65, 127, 128, 129, 191, 192, 4095, 4096}
    for count in sorted({*around, least - 1, least, least + 1, most - 1, most, most + 1}):
        if count >= 0:
            assert matches(grammar, "x" * count) == (least <= count <= most), count


def test_classes_beyond_ascii_are_rules_of_their_own() -> None:
    wide = char_class(((0x61, 0x2000),))
    text = Grammar({"root": sequence(Literal("a"), wide, repeat(wide))}).to_ebnf()
    root = text.splitlines()[0]
    assert "[" not in root


def test_grammar_without_words_has_no_ebnf() -> None:
    with pytest.raises(GrammarError):
        Grammar({"root": sequence(Literal("a"), Reference("root"))}).to_ebnf()


def test_what_may_be_left_out_is_a_rule_of_its_own() -> None:
    """Written in place it costs the engine the cube of an object's optional properties."""
    schema = {"type": "object", "properties": {name: {"type": "boolean"} for name in "abcd"}}
    assert ")?" not in from_json_schema(schema).to_ebnf()


@pytest.mark.parametrize("least", [0, 2])
def test_text_of_any_length_is_runs_of_one_class(least: int) -> None:
    """Where a rule ends behind each character the engine looks at every token for every character."""
    grammar = from_json_schema({"type": "string", "minLength": least})
    assert re.search(r"(chars\d+)\* (item\d+)\* ", grammar.to_ebnf())
    assert "json_char*" not in grammar.to_ebnf()
    assert matches(from_ebnf(grammar.to_ebnf()), '"a\\n\\u00e9b"')
    assert matches(from_ebnf(grammar.to_ebnf()), '"a"') is (least < 2)
