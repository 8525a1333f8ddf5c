"""Schemas of every sort on the real engine: kept to, or refused by the place that is at fault."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from refloat.testing.client import Answer
from refloat.testing.harness import Server

pytestmark = [pytest.mark.process, pytest.mark.engine]

ErrorOf = Callable[[Answer], dict[str, Any]]
SCHEMA = "response_format.json_schema.schema"


def answer_to(server: Server, form: dict[str, Any], **fields: Any) -> Answer:
    thinking = {"chat_template_kwargs": {"enable_thinking": False}}
    more = {"max_tokens": 60, "seed": 5, **thinking, **fields}
    return server.client().chat("Hi", model="tiny-llm", response_format=form, **more)


def of(schema: Any) -> dict[str, Any]:
    return {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}


@pytest.mark.case(26)
@pytest.mark.parametrize("pattern", ["^*x$", "^{3}", "(?<=a)b", "[ab", "(" * 60_000])
def test_pattern_that_no_grammar_can_bear_is_a_400(
    engine: Server, error_of: ErrorOf, pattern: str
) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string", "pattern": pattern}}}
    answer = answer_to(engine, of(schema))
    assert answer.status == 400, answer.body
    assert error_of(answer)["param"] == f"{SCHEMA}.properties.a.pattern"


RECURSIVE = {"type": "object", "properties": {"next": {"anyOf": [{"$ref": "#"}, {"type": "null"}]}}}


@pytest.mark.case(121)
@pytest.mark.parametrize(
    "form",
    [
        *map(of, ({"type": "object"}, {}, True, {"type": ["string", "null"]}, {"enum": ["one"]})),
        of(RECURSIVE),
        {"type": "json_object"},
    ],
)
def test_odd_schema_is_kept_to(engine: Server, form: dict[str, Any]) -> None:
    answer = answer_to(engine, form)
    assert answer.status == 200, answer.body
    if answer.json()["choices"][0]["finish_reason"] == "stop":
        json.loads(answer.text)
    else:
        assert answer.json()["choices"][0]["finish_reason"] == "length"


@pytest.mark.case(121)
@pytest.mark.parametrize(
    ("schema", "param"),
    [
        ({"type": "nothing"}, "type"),
        ({"not": {"type": "string"}}, "not"),
        ({"properties": {"a": {"dependentSchemas": {"x": {}}}}}, "properties.a.dependentSchemas"),
        ({"$ref": "#/$defs/gone"}, "$ref"),
    ],
)
def test_keyword_that_cannot_be_held_is_named(
    engine: Server, error_of: ErrorOf, schema: dict[str, Any], param: str
) -> None:
    answer = answer_to(engine, of(schema))
    assert answer.status == 400, answer.body
    assert error_of(answer)["param"] == f"{SCHEMA}.{param}"
