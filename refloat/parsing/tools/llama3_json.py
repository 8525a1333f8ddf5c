"""Llama 3: an answer that is nothing but `{"name": ..., "parameters": {...}}`; `;` between several."""

from refloat.parsing.calls import Calls
from refloat.parsing.tools.driver import CallParser
from refloat.parsing.tools.json_calls import JsonCalls

PYTHON = "<|python_tag|>"
MARKS = (PYTHON,)


def llama3_json(calls: Calls) -> CallParser:
    """The family's parser."""
    return CallParser(calls, (PYTHON,), lambda _: JsonCalls(), bare=("{",))
