"""Arguments that come out are JSON that every client reads, and text that can be sent."""

import json
from typing import Any

import pytest

from refloat.parsing.declared import typed_json
from refloat.parsing.partial_json import string_prefix, string_value

LIST = frozenset(("array",))


@pytest.mark.parametrize("text", ["[NaN]", "[1, -Infinity]", "['\\ud800']"])
def test_value_that_no_json_can_hold_is_text(text: str) -> None:
    found = typed_json(text, LIST)
    assert json.loads(found.encode()) == text


def test_half_a_pair_of_surrogates_is_replaced_and_never_cut_in_two() -> None:
    assert string_value('"a\\ud83d"') == "a\ufffd"
    assert string_value('"\\ud83d\\ude00"') == "\U0001f600"
    assert string_prefix('"ab\\ud83d') == "ab"
    assert string_prefix('"ab\\ud83d\\ude') == "ab"


def test_arguments_that_are_a_string_of_half_a_pair_can_be_sent(bench: Any) -> None:
    text = '<tool_call>{"name": "ping", "arguments": "\\ud800"}</tool_call>'
    found = bench.parse_anyhow(bench.family("hermes"), text)
    assert found.raw(0).encode() == "\ufffd".encode()
