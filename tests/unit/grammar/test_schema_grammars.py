"""JSON schemas as grammars: what fits is a word, what does not is none, the rest is refused."""

import json
import random
from typing import Any

import pytest

from refloat.grammar.errors import GrammarError
from refloat.grammar.json_schema import any_json, any_json_object, from_json_schema
from refloat.grammar.residual import matches
from refloat.grammar.words import word

_TREE = {
    "$ref": "#/$defs/tree",
    "$defs": {
        "tree": {
            "type": "object",
            "properties": {
                "name": {"type": "string"},
                "children": {"type": "array", "items": {"$ref": "#/$defs/tree"}},
            },
            "required": ["name"],
        }
    },
}
_PERSON = {
    "type": "object",
    "properties": {
        "a": {"type": "integer"},
        "b": {"type": ["string", "null"]},
        "c": {"type": "boolean"},
    },
    "required": ["b"],
    "additionalProperties": False,
}

CASES: list[tuple[Any, list[str], list[str]]] = [
    (True, ["1", '{"a": [null]}'], ["", "nul", "1 "]),
    ({}, ['"x"', "[]"], ["[,]"]),
    ({"type": "null"}, ["null"], ["0"]),
    (
        {"type": "string"},
        ['""', '"é\\n\\u00e9\\ud83d\\ude00/"'],
        ['"', '"\n"', '"\\x"', '"\\ud83d"', '"\\ude00\\ud83d"', '"a"b"'],
    ),
    (
        {"type": "string", "minLength": 2, "maxLength": 3},
        ['"ab"', '"\\n\\u00e9é"'],
        ['"a"', '"abcd"'],
    ),
    (
        {"type": "string", "pattern": "^[^a]b+$"},
        ['"\\"bb"', '"ébbb"', '"\\\\b"'],
        ['"ab"', '"bbc"', '""b"'],
    ),
    ({"type": "string", "pattern": "b.d"}, ['"abcde"', '"b\\td"'], ['"abde"']),
    ({"type": "string", "pattern": "^a|b$"}, ['"ax"', '"xb"'], ['"xa"', '"bx"']),
    ({"type": "string", "pattern": "^[a-z]*$", "maxLength": 2}, ['"ab"'], ['"abc"']),
    (
        {"type": "string", "pattern": "^[a-z]+(-[a-z]+)*$", "minLength": 3, "maxLength": 6},
        ['"abc"', '"a-b-cd"', '"abcdef"'],
        ['"ab"', '"abc-"', '"abcdefg"', '"a-b-cde"'],
    ),
    (
        {"type": "string", "pattern": "(ab)+c?$", "minLength": 3},
        ['"xab"', '"abc"', '"abab"', '"\\nab"'],
        ['"ab"', '"xxx"', '"abx"'],
    ),
    (
        {"type": "string", "format": "date", "pattern": "^2024-|5$"},
        ['"2024-02-29"', '"1999-12-25"'],
        ['"1999-12-24"', '"2024-02-30"', '"2024-"'],
    ),
    ({"type": "string", "format": "date"}, ['"2024-02-29"'], ['"2023-02-29"', '"2024-04-31"']),
    ({"type": "string", "format": "time"}, ['"23:59:01.5Z"', '"01:02:03+02:00"'], ['"24:00:00Z"']),
    ({"type": "string", "format": "date-time"}, ['"2024-02-29T10:11:12Z"'], ['"2024-02-29"']),
    ({"type": "string", "format": "uuid"}, ['"123e4567-e89b-12d3-a456-426614174000"'], ['"123e"']),
    ({"type": "string", "format": "email"}, ['"a.b+c@d.example.org"'], ['"a@b"', '"@b.c"']),
    (
        {"type": "string", "format": "ipv4"},
        ['"255.0.1.99"'],
        ['"256.0.0.1"', '"1.2.3"', '"01.1.1.1"'],
    ),
    ({"type": "string", "format": "ipv6"}, ['"::"', '"1::8"', '"1:2:3:4:5:6:7:8"'], ['"1::2::3"']),
    ({"type": "string", "format": "uri"}, ['"https://a.example:80/b?c=d#e"'], ['"a b"', '"x"']),
    ({"type": "string", "format": "duration"}, ['"P1Y2M"', '"PT5M"', '"P3W"'], ['"P"', '"5M"']),
    ({"type": "integer"}, ["0", "-12", "9" * 30], ["1.0", "01", "-", "+1"]),
    ({"type": "number"}, ["0.5", "-1e-7", "1.5E+300", "12"], ["1e400", ".5", "1.", "NaN"]),
    ({"type": "integer", "exclusiveMinimum": -3, "maximum": 12}, ["-2", "12", "0"], ["-3", "13"]),
    ({"type": "integer", "format": "int32"}, ["2147483647", "-2147483648"], ["2147483648"]),
    ({"enum": ["a", 1, None, {"k": [True]}]}, ['"a"', "1", "null", '{"k":[true]}'], ["2", '"b"']),
    ({"enum": ["a", 1, None], "type": "string"}, ['"a"'], ["1", "null"]),
    ({"enum": ["abc", "a"], "minLength": 2}, ['"abc"'], ['"a"']),
    ({"type": "string", "anyOf": [{"enum": [1]}, {"enum": ["a"]}]}, ['"a"'], ["1"]),
    ({"anyOf": [{"allOf": [{"enum": [1]}, {"enum": [True]}]}, {"const": 3}]}, ["3"], ["1", "true"]),
    ({"const": "é"}, ['"é"', '"\\u00e9"'], ['"e"']),
    ({"type": "array", "maxItems": 0}, ["[]"], ["[1]"]),
    (
        {"type": "array", "items": {"type": "integer"}},
        ["[]", "[1, 2]", "[\n  1,\n  2\n]"],
        ["[1,]"],
    ),
    (
        {"type": "array", "items": {"type": "integer"}, "minItems": 2, "maxItems": 3},
        ["[1, 2]", "[1, 2, 3]"],
        ["[]", "[1]", "[1, 2, 3, 4]"],
    ),
    (
        {"type": "array", "prefixItems": [{"type": "integer"}, {"type": "string"}], "minItems": 1},
        ["[1]", '[1, "a"]'],
        ["[]", '["a"]', '[1, "a", 2]'],
    ),
    (
        {"prefixItems": [{"type": "integer"}], "items": {"type": "boolean"}, "maxItems": 3},
        ["[]", "[1]", "[1, true, false]"],
        ["[true]", "[1, 2]", "[1, true, true, true]"],
    ),
    ({"type": "object"}, ["{}", '{"a": {"b": 1}}', "{ }"], ["[]", '{"a" 1}']),
    ({"type": "object", "properties": {}}, ["{}"], ['{"a": 1}']),
    (
        _PERSON,
        ['{"b": null}', '{"a": 1, "b": "x", "c": true}', '{"b": "", "c": false}'],
        ["{}", '{"a": 1}', '{"b": null, "a": 1}', '{"b": null, "d": 1}', '{"b": null,}'],
    ),
    (
        {"type": "object", "properties": {"a": {}, "b": {}}},
        ["{}", '{"a": 1}', '{"b": 1}', '{"a": 1, "b": 2}'],
        ['{"c": 1}', '{"b": 1, "a": 1}', '{, "b": 1}'],
    ),
    (
        {"properties": {"ab": {"type": "null"}}, "additionalProperties": {"type": "integer"}},
        ['{"ab": null, "a": 1, "abc": 2, "": 3}', '{"b": 1}', "{}"],
        ['{"ab": 1}', '{"ab": null, "ab": 1}', '{"b": null}', '{"\\u0061b": 1}'],
    ),
    (
        {"type": "object", "maxProperties": 1, "additionalProperties": True},
        ['{"a": 1}'],
        ['{"a": 1, "b": 1}'],
    ),
    (
        {"propertyNames": {"pattern": "^[a-z]+$"}, "additionalProperties": {"type": "integer"}},
        ["{}", '{"a": 1, "bc": 2}'],
        ['{"A": 1}', '{"a": ""}'],
    ),
    (
        {"patternProperties": {"^x_": {"type": "integer"}}, "additionalProperties": False},
        ["{}", '{"x_a": 1}'],
        ['{"a": 1}', '{"x_": null}'],
    ),
    (
        {"properties": {"a": {"not": {}}, "b": {}}, "propertyNames": {"type": "string"}},
        ['{"b": 1}'],
        ['{"a": 1}'],
    ),
    ({"type": "object", "required": ["x"]}, ['{"x": 1}'], ["{}", '{"y": 1}']),
    (_TREE, ['{"name": "a", "children": [{"name": "b", "children": []}]}'], ['{"children": []}']),
    ({"anyOf": [{"type": "integer"}, {"type": "string"}]}, ["1", '"a"'], ["null"]),
    (
        {
            "type": "object",
            "properties": {"k": {}},
            "oneOf": [{"properties": {"k": {"const": 1}}}, {"required": ["k"]}],
        },
        ['{"k": 1}', '{"k": 5}', "{}"],
        ['{"j": 1}'],
    ),
    (
        {
            "allOf": [
                {"properties": {"a": {"type": "number", "minimum": 1}}, "required": ["a"]},
                {"properties": {"a": {"type": "integer"}, "b": {"type": "string"}}},
            ]
        },
        ['{"a": 2}', '{"a": 1, "b": "x"}'],
        ["{}", '{"a": 0}', '{"a": 1.5}'],
    ),
    ({"type": "integer", "nullable": True}, ["1", "null"], ['"a"']),
    (  # pydantic's HttpUrl
        {"type": "string", "format": "uri", "minLength": 1, "maxLength": 2083},
        ['"https://a.example/b/c?d=e"'],
        ['""', '"x"'],
    ),
    (
        {"type": "string", "format": "uri", "maxLength": 250},
        ['"http://a.example/b/c?d=e"'],
        ['"x"', f'"http://a.example/{"b" * 250}"'],
    ),
    (
        {"type": "string", "format": "email", "maxLength": 100},
        ['"ann.b@mail.example.org"'],
        ['"ann"', '"@a.b"', '".a@b.cd"', '"a..b@c.de"', f'"{"a" * 90}@mail.example.org"'],
    ),
    (
        {"type": "string", "format": "email", "maxLength": 12, "minLength": 6},
        ['"an@a.example"', '"ab@c.d"'],
        ['"a@b.c"', '"ann@ab.example"'],
    ),
    (
        {"type": "string", "format": "uri-reference", "maxLength": 120},
        ['"/a/b?c=d"', '"b/c"', '"https://a.example/"'],
        ['"a b"', f'"/{"b" * 120}"'],
    ),
    (
        {"type": "string", "format": "hostname", "maxLength": 63},
        ['"mail.a.example"', '"localhost"'],
        ['"-a"', '"a..b"', f'"{"a" * 64}"'],
    ),
    ({"type": "string", "format": "base64"}, ['""', '"QUI="', '"QUJD"'], ['"QUI"', '"===="']),
    (
        {"type": "string", "format": "uuid4"},
        ['"123e4567-e89b-42d3-a456-426614174000"'],
        ['"123e4567-e89b-12d3-a456-426614174000"'],
    ),
    ({"type": "string", "format": "ipvanyaddress"}, ['"::1"', '"10.0.0.1"'], ['"10.0.0"']),
    ({"type": "string", "format": "uri-reference"}, ['"/a/b?c#d"', '"https://a.b"'], ['"a b"']),
    ({"type": "string", "format": "json-pointer"}, ['""', '"/a/~0~1"'], ['"a"', '"/~2"']),
    ({"type": "string", "format": "file-path"}, ['"/tmp/x y"'], ["1"]),
    (  # pydantic's set of an enumeration: each once, in the order of the schema
        {
            "$defs": {"c": {"enum": ["r", "g", "b"]}},
            "type": "array",
            "items": {"$ref": "#/$defs/c"},
            "uniqueItems": True,
        },
        ["[]", '["g"]', '["r", "b"]', '["r", "g", "b"]'],
        ['["r", "r"]', '["x"]', '["r", "g", "b", "b"]'],
    ),
    (
        {"items": {"enum": [1, 2, 1.0]}, "uniqueItems": True, "minItems": 1, "maxItems": 2},
        ["[2]", "[1.0, 2]"],
        ["[]", "[1, 1.0]", "[1]"],
    ),
    ({"type": "array", "maxItems": 1, "uniqueItems": True}, ["[]", '["x"]'], ["[1, 2]"]),
    (
        {"type": "object", "properties": {"a": {}, "b": {}}, "minProperties": 1},
        ['{"a": 1}', '{"b": 1}', '{"a": 1, "b": 2}'],
        ["{}"],
    ),
    (  # zod's record of an enumeration
        {
            "type": "object",
            "propertyNames": {"type": "string", "enum": ["a", "b"]},
            "additionalProperties": {"type": "integer"},
            "required": ["a"],
        },
        ['{"a": 1}', '{"a": 1, "b": 2}'],
        ["{}", '{"b": 1}', '{"a": "x"}', '{"a": 1, "c": 2}'],
    ),
    ({"type": ["integer", "array"], "items": False}, ["1", "[]"], ["[1]"]),
    ({"$ref": "#/definitions/x", "definitions": {"x": {"const": 3}}, "title": "t"}, ["3"], ["4"]),
    (
        {
            "allOf": [{"$ref": "#/$defs/x"}],
            "description": "d",
            "$defs": {"x": {"enum": ["p", "q"]}},
        },
        ['"p"'],
        ['"r"'],
    ),
]


@pytest.mark.parametrize(("schema", "right", "wrong"), CASES, ids=lambda value: str(value)[:50])
def test_schema_tells_right_from_wrong(schema: Any, right: list[str], wrong: list[str]) -> None:
    grammar = from_json_schema(schema)
    assert [text for text in right if not matches(grammar, text)] == []
    assert [text for text in wrong if matches(grammar, text)] == []
    for seed in range(5):
        text = word(grammar, random.Random(seed), 60)
        json.loads(text)
        assert matches(grammar, text)


REFUSALS: list[tuple[Any, tuple[str, ...]]] = [
    ({"properties": {"a": {"type": "strin"}}}, ("properties", "a", "type")),
    ({"not": {"type": "null"}}, ("not",)),
    ({"type": "object", "minProperties": 2}, ("minProperties",)),
    ({"properties": {"a": {}}, "propertyNames": {"pattern": "b"}}, ("propertyNames",)),
    ({"patternProperties": {"a": {}, "b": {}}}, ("patternProperties",)),
    ({"properties": {"x": {}}, "patternProperties": {"a": {}}}, ("patternProperties",)),
    ({"allOf": [{"not": {}}, {"type": "string"}]}, ()),
    ({"allOf": [{"not": {"const": 1}}, {"type": "string"}]}, ("allOf", "0", "not")),
    ({"type": "integer", "format": "odd"}, ("format",)),
    ({"anyOf": "a"}, ("anyOf",)),
    ({"properties": [1]}, ("properties",)),
    ({"allOf": ["string"], "type": "string"}, ("allOf", "0")),
    ({"allOf": [{"properties": 1}, {"type": "object"}]}, ("allOf", "0", "properties")),
    ({"type": "string", "format": ["date"]}, ("format",)),
    ({"enum": [float("inf")]}, ()),
    ({"items": {"dependentSchemas": {}}}, ("items", "dependentSchemas")),
    ({"type": "array", "uniqueItems": True}, ("uniqueItems",)),
    ({"if": {}, "then": {}}, ("if",)),
    ({"type": "string", "format": "color"}, ("format",)),
    ({"type": "string", "pattern": "(?=a)"}, ("pattern",)),
    ({"type": "string", "format": "duration", "maxLength": 40}, ()),
    ({"type": "string", "format": "regex"}, ("format",)),
    ({"type": "integer", "multipleOf": 7}, ("multipleOf",)),
    ({"type": "integer", "minimum": "1"}, ("minimum",)),
    ({"type": "string", "minLength": 3, "maxLength": 1}, ("maxLength",)),
    ({"$ref": "#/$defs/none"}, ("$ref",)),
    ({"$ref": "https://example.org/schema"}, ("$ref",)),
    ({"$ref": "#"}, ()),
    ({"type": "object", "required": ["a"], "properties": {"a": False}}, ("required",)),
    ({"enum": [1], "type": "string"}, ()),
    ({"allOf": [{"pattern": "a"}, {"pattern": "b"}]}, ("allOf", "1", "pattern")),
    ({"type": "object", "properties": {"a": {}, "b": {}}, "minProperties": 2}, ("minProperties",)),
    ({"properties": {"a": {}}, "propertyNames": {"enum": ["a"]}}, ("propertyNames",)),
    ({"allOf": [{"uniqueItems": True}, {"items": {}}]}, ("uniqueItems",)),
    (
        {
            "$defs": {"a": {"$ref": "#/$defs/a"}},
            "items": {"$ref": "#/$defs/a"},
            "uniqueItems": True,
        },
        ("$defs", "a"),
    ),
    ([], ()),
    (7, ()),
]


@pytest.mark.parametrize(("schema", "path"), REFUSALS, ids=lambda value: str(value)[:50])
def test_schema_that_cannot_be_held_is_refused_with_its_path(
    schema: Any, path: tuple[str, ...]
) -> None:
    with pytest.raises(GrammarError) as caught:
        from_json_schema(schema)
    assert caught.value.path == path
    assert caught.value.message


def test_schema_put_together_with_itself_ends() -> None:
    schema = {
        "type": "object",
        "properties": {"child": {"allOf": [{"$ref": "#"}, {"required": ["name"]}]}, "name": {}},
    }
    grammar = from_json_schema(schema)
    assert matches(grammar, '{"child": {"child": {"name": 1}, "name": 2}}')
    assert not matches(grammar, '{"child": {"child": {"name": 1}}}')


def test_object_of_any_json_is_an_object() -> None:
    assert matches(any_json(), "[1]")
    assert not matches(any_json_object(), "[1]")
    assert matches(any_json_object(), '{"a": [1]}')


@pytest.mark.parametrize("blank", ["", " ", "\n", "\n    "])
def test_blanks_between_tokens_are_allowed_once(blank: str) -> None:
    text = '{<"a":1,<"b":[<],<"c":[<2<]<}'.replace("<", blank)
    assert matches(any_json(), text)


@pytest.mark.parametrize(
    "text",
    [
        "[  1]",
        "[1\n\n]",
        "[1 , 2]",
        "[1]\n",
        " [1]",
        '{"a" :1}',
        '{"a":  1}',
        "[\n" + " " * 33 + "1]",
        "[\t1]",
    ],
)
def test_blanks_that_could_go_on_are_not_allowed(text: str) -> None:
    assert not matches(any_json(), text)
