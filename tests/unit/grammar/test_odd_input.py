"""Whatever comes as a schema, pattern or grammar is made into a grammar or refused, and no more."""

import contextlib
import random
from typing import Any

import pytest

from refloat.grammar.calls.forms import FORMS
from refloat.grammar.ebnf import from_ebnf
from refloat.grammar.errors import GrammarError
from refloat.grammar.json_schema import from_json_schema
from refloat.grammar.limits import check_grammar
from refloat.grammar.regex import from_regex
from refloat.grammar.schema.keywords import ASSERTIONS, REFUSED
from refloat.grammar.tool_calls import tool_calls

_KEYWORDS = (
    *sorted(ASSERTIONS),
    *sorted(ASSERTIONS),
    *sorted(REFUSED),
    "title",
    "$defs",
    "uniqueItems",
)
_VALUES: tuple[Any, ...] = (
    *(
        None,
        True,
        False,
        0,
        1,
        -1,
        3,
        2.5,
        1e308,
        float("inf"),
        10**30,
        "",
        "a",
        "#",
        "^a+$",
        "[",
        "date",
    ),
    *("string", "integer", "object", "array", "null", "#/$defs/a", "#/properties/a", "\ud800"),
    *(["string", "null"], ["a"], {"a": {}}, {"a": True, "b": False}, [{}], {"type": "string"}),
)


def odd_value(chance: random.Random, depth: int) -> Any:
    """Anything that may stand behind a keyword."""
    kind = chance.random()
    if kind < 0.35 and depth:
        return odd_schema(chance, depth - 1)
    if kind < 0.5 and depth:
        return [odd_value(chance, depth - 1) for _ in range(chance.randint(0, 3))]
    return chance.choice(_VALUES)


def odd_schema(chance: random.Random, depth: int) -> Any:
    """Keywords with anything behind them."""
    keys = (chance.choice(_KEYWORDS) for _ in range(chance.randint(0, 4)))
    return {key: odd_value(chance, depth) for key in keys}


def odd_text(chance: random.Random, alphabet: str) -> str:
    """Signs in any order."""
    return "".join(chance.choice(alphabet) for _ in range(chance.randint(0, 20)))


def check_odd_input(seed: int) -> None:
    """Nothing is raised but `GrammarError`."""
    chance = random.Random(seed)
    schema = odd_schema(chance, 3)
    tool = {"type": "function", "function": {"name": "f", "parameters": schema}}
    pattern = odd_text(chance, "ab()[]{}|*+?\\^$-.,0123nu:<=!P\n")
    rules = odd_text(chance, 'root ::=|()"[]{}*+?\\^-.,09nux#\n')
    for make in (
        lambda: from_json_schema(schema),
        lambda: tool_calls(chance.choice(list(FORMS)), [tool]),
        lambda: from_regex(pattern),
        lambda: from_ebnf("root ::= " + rules),
    ):
        with contextlib.suppress(GrammarError):
            grammar = make()
            check_grammar(grammar)
            assert grammar.to_ebnf().startswith("root ::= ")


def test_odd_input_is_made_or_refused() -> None:
    for seed in range(120):
        check_odd_input(seed)


@pytest.mark.soak
@pytest.mark.timeout(1200)
def test_much_odd_input_is_made_or_refused() -> None:
    for seed in range(1000, 11_000):
        check_odd_input(seed)
