"""What may follow a text: exactly the rests of the words that begin with it."""

import json
import random
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from refloat.grammar.ebnf import from_ebnf
from refloat.grammar.ebnf_text import FREE_TEXT
from refloat.grammar.errors import GrammarError
from refloat.grammar.grammar import Grammar
from refloat.grammar.json_schema import any_json, from_json_schema
from refloat.grammar.nodes import Free, Literal, sequence
from refloat.grammar.regex import from_regex
from refloat.grammar.residual import matches, residual
from refloat.grammar.words import word

_FREE = sequence(Literal("("), Free(("<think>", "<x", "|")), Literal("<x"), Free(("|>",)))
GRAMMARS = {
    "free": Grammar({"root": _FREE}),
    "json": any_json(),
    "schema": from_json_schema(
        {
            "type": "object",
            "properties": {
                "a": {"type": "integer", "minimum": 3, "maximum": 1200},
                "b": {"type": "array", "items": {"type": "string", "maxLength": 5}, "maxItems": 3},
                "c": {"enum": ["x", "xy", None]},
                "d": {"type": "number", "minimum": -1.5, "maximum": 2},
            },
            "additionalProperties": {"type": "boolean"},
        }
    ),
    "regex": from_regex(r"(?:foo|f[aeiou]{2,4}|\w+@(?:x\.)?y)+z?"),
    "right": from_ebnf('root ::= "" | [ab] root | "c" root "d"'),
    "left": from_ebnf('root ::= root "a" | root root "b" | "c"'),
    "empty": from_ebnf('root ::= x x "e"? x\nx ::= "" | "a" x?'),
    "counted": from_ebnf('root ::= ("a" | "ab"){3,70} "b"{2}'),
}


@pytest.mark.parametrize("name", GRAMMARS)
def test_rest_of_every_word_is_in_the_residual_at_every_cut(name: str) -> None:
    grammar = GRAMMARS[name]
    for seed in range(2):
        text = word(grammar, random.Random(seed), 25)
        assert matches(grammar, text)
        for cut in range(len(text) + 1):
            rest = residual(grammar, text[:cut])
            assert rest is not None, (text, cut)
            assert matches(rest, text[cut:]), (text, cut)


@pytest.mark.parametrize(
    ("tags", "text", "fits"),
    [
        (("<think>", "<tool>"), "a <th <<thin<tool >", True),
        (("<think>", "<tool>"), "<<think>", False),
        (("<think>", "<tool>"), "<t<tool>", False),
        (("|",), "a<b", True),
        (("|",), "a|", False),
        (("ab", "abc"), "aab", False),
    ],
)
def test_free_text_holds_no_tag(tags: tuple[str, ...], text: str, fits: bool) -> None:
    grammar = Grammar({"root": Free(tags)})
    assert matches(grammar, text) is fits
    assert matches(from_ebnf(grammar.to_ebnf()), text) is fits
    for cut in range(len(text)):
        rest = residual(grammar, text[:cut])
        assert rest is None or matches(rest, text[cut:]) is fits
        assert rest is not None or not fits


@pytest.mark.parametrize("tags", ["", '""', '"<a<"', '"a", "ba"', '"a" "b"', '"a\n', '"a")'])
def test_free_text_that_cannot_be_read_is_refused(tags: str) -> None:
    with pytest.raises(GrammarError):
        from_ebnf(f"root ::= {FREE_TEXT.format(tags)}")


@pytest.mark.parametrize("name", GRAMMARS)
def test_word_of_a_residual_completes_the_text(name: str) -> None:
    grammar = GRAMMARS[name]
    for seed in range(6):
        chance = random.Random(seed)
        text = word(grammar, chance, 25)
        text = text[: chance.randint(0, len(text))]
        rest = residual(grammar, text)
        assert rest is not None
        assert matches(grammar, text + word(rest, chance, 25))


@pytest.mark.parametrize(
    ("name", "text"),
    [("json", "[1 2"), ("schema", '{"a": 2,'), ("regex", "fo "), ("right", "cda "), ("left", "b")],
)
def test_text_that_begins_no_word_has_no_residual(name: str, text: str) -> None:
    assert residual(GRAMMARS[name], text) is None


def test_residual_of_a_whole_text_allows_nothing_more() -> None:
    rest = residual(GRAMMARS["schema"], '{"a": 3}')
    assert rest is not None
    assert matches(rest, "")
    assert not matches(rest, "}")


def test_residual_twice_is_residual_of_both() -> None:
    text = '{"a": {"b": [1, "x\\n'
    for cut in range(len(text)):
        first = residual(any_json(), text[:cut])
        assert first is not None
        second = residual(first, text[cut:])
        assert second is not None
        assert matches(second, 'y"]}}')
        assert not matches(second, 'y"}}')


def test_residual_read_back_from_its_text_is_the_same() -> None:
    rest = residual(any_json(), '{"a": [1, {"b": "')
    assert rest is not None
    again = from_ebnf(rest.to_ebnf())
    assert matches(again, 'é"}]}')
    assert not matches(again, 'é"]}')


@pytest.mark.parametrize("name", ["right", "left"])
def test_long_lists_written_as_recursion_stay_cheap(name: str) -> None:
    text = {"right": "ab" * 2000, "left": "c" + "a" * 4000}[name]
    assert residual(GRAMMARS[name], text) is not None


def test_long_document_is_cut_quickly() -> None:
    document = [{"id": i, "text": "words and \\ more" * 3, "ok": None} for i in range(60)]
    text = json.dumps(document, indent=1)[:4000]
    assert residual(any_json(), text) is not None


def test_grammar_with_too_many_readings_is_refused() -> None:
    grammar = from_ebnf("root ::= (x{0,50} y{0,50}){0,300}\nx ::= [a]*\ny ::= [ab]{0,99}")
    with pytest.raises(GrammarError, match="too many ways"):
        matches(grammar, "a" * 400)


def values() -> st.SearchStrategy[Any]:
    """Random JSON values."""
    plain = st.none() | st.booleans() | st.integers(-(10**20), 10**20) | st.text(max_size=6)
    numbers = st.floats(allow_nan=False, allow_infinity=False, max_value=1e300, min_value=-1e300)
    return st.recursive(
        plain | numbers,
        lambda inner: (
            st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3)
        ),
        max_leaves=6,
    )


def schema_of(value: Any, chance: random.Random) -> Any:
    """A schema that a value fits, made from it."""
    if chance.random() < 0.1:
        return {}
    match value:
        case None:
            return {"type": "null"}
        case bool():
            return {"enum": [value, "other"]}
        case int():
            return {"type": "integer", "minimum": value - chance.randint(0, 50), "maximum": value}
        case float():
            return {"type": "number"}
        case str():
            return {"type": "string", "minLength": len(value) // 2, "maxLength": len(value) + 1}
        case list():
            return _of_list(cast("list[Any]", value), chance)
        case _:
            return _of_object(value, chance)


def _of_list(value: list[Any], chance: random.Random) -> Any:
    if value and chance.random() < 0.5:
        return {"type": "array", "prefixItems": [schema_of(item, chance) for item in value]}
    options = [schema_of(item, chance) for item in value]
    return {
        "type": "array",
        "items": {"anyOf": [*options, {"type": "null"}]},
        "maxItems": len(value),
    }


def _of_object(value: dict[str, Any], chance: random.Random) -> Any:
    names = [name for name in value if chance.random() < 0.6]
    return {
        "type": "object",
        "properties": {name: schema_of(item, chance) for name, item in value.items()}
        | {"never there": {"type": "integer"}},
        "required": names,
    }


def check_document(value: Any, seed: int) -> None:
    """A value fits a schema made from it, in every spacing; its rest fits at a few cuts."""
    chance = random.Random(seed)
    schema = schema_of(value, chance)
    grammar = from_json_schema(schema)
    texts = [
        json.dumps(value, ensure_ascii=False),
        json.dumps(value),
        json.dumps(value, indent=2),
        json.dumps(value, separators=(",", ":")),
    ]
    for text in texts:
        assert matches(grammar, text), (schema, text)
    text = chance.choice(texts)
    cut = chance.randint(0, len(text))
    rest = residual(grammar, text[:cut])
    assert rest is not None
    assert matches(rest, text[cut:])
    assert not matches(rest, text[cut:] + "x")
    assert residual(grammar, text[:cut] + "\x00") is None


@settings(max_examples=15, deadline=None)
@given(values(), st.integers(0, 2**30))
def test_documents_fit_schemas_made_from_them(value: Any, seed: int) -> None:
    check_document(value, seed)


@pytest.mark.soak
@pytest.mark.timeout(1200)
@settings(max_examples=2000, deadline=None)
@given(values(), st.integers(0, 2**30))
def test_documents_fit_schemas_made_from_them_at_length(value: Any, seed: int) -> None:
    check_document(value, seed)


@pytest.mark.soak
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("name", GRAMMARS)
def test_rests_of_many_words_are_in_residuals(name: str) -> None:
    grammar: Grammar = GRAMMARS[name]
    for seed in range(150):
        text = word(grammar, random.Random(seed), 60)
        for cut in range(len(text) + 1):
            rest = residual(grammar, text[:cut])
            assert rest is not None, (text, cut)
            assert matches(rest, text[cut:]), (text, cut)
