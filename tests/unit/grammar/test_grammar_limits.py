"""What would take the engine too long is refused before anything is compiled."""

import tracemalloc
from typing import Any

import pytest

from refloat.grammar.ebnf import from_ebnf
from refloat.grammar.errors import GrammarError
from refloat.grammar.json_schema import any_json, from_json_schema
from refloat.grammar.limits import check_grammar
from refloat.grammar.regex import from_regex
from refloat.grammar.tool_calls import tool_calls


def _deep(levels: int) -> Any:
    schema: Any = {"type": "integer"}
    for _ in range(levels):
        schema = {"type": "array", "items": schema}
    return schema


def _references(count: int) -> Any:
    chain = {f"d{i}": {"$ref": f"#/$defs/d{i + 1}"} for i in range(count)}
    return {"$ref": "#/$defs/d0", "$defs": {**chain, f"d{count}": {"type": "integer"}}}


@pytest.mark.parametrize(
    "schema",
    [
        _deep(20_000),
        {"enum": list(range(100_000))},
        {"description": "x" * 1_000_000},
        {"allOf": [{"anyOf": [{"minimum": i * j} for i in range(9)]} for j in range(9)]},
    ],
    ids=["deep", "wide", "long", "product"],
)
def test_hostile_schema_is_refused_without_much_memory(schema: Any) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(GrammarError):
            check_grammar(from_json_schema(schema))
        assert tracemalloc.get_traced_memory()[1] < 50_000_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    "pattern",
    [
        "((a|b){1,900}c){1,900}",
        "a{999999}",
    ],
    ids=["twice", "times"],
)
def test_hostile_pattern_is_refused(pattern: str) -> None:
    with pytest.raises(GrammarError):
        check_grammar(from_regex(pattern))


def test_hostile_grammar_is_refused() -> None:
    rules = "\n".join(f'r{i} ::= "{i}" r{i + 1}' for i in range(6000))
    with pytest.raises(GrammarError):
        check_grammar(from_ebnf(f'root ::= r0\n{rules}\nr6000 ::= "x"'))


def test_long_chain_of_references_is_no_recursion_of_ours() -> None:
    check_grammar(from_json_schema(_references(2000)))


def test_ordinary_grammars_pass() -> None:
    check_grammar(any_json())
    fields = {f"field{i}": {"type": "string", "maxLength": 4000} for i in range(50)}
    check_grammar(
        from_json_schema({"type": "object", "properties": fields, "required": list(fields)})
    )


def test_tools_of_an_agent_are_not_too_many() -> None:
    """Several calls may follow each other, but each of the tools is there once."""
    properties = {f"field_{n}": {"type": "string"} for n in range(20)}
    parameters = {"type": "object", "properties": properties}
    tools = [
        {"type": "function", "function": {"name": f"tool_{n}", "parameters": parameters}}
        for n in range(47)
    ]
    check_grammar(tool_calls("hermes", tools))
