"""Hermes, Qwen 2.5, Qwen 3 and others: `<tool_call>{"name": ..., "arguments": {...}}</tool_call>`."""

from refloat.parsing.calls import Calls
from refloat.parsing.tools.driver import CallParser
from refloat.parsing.tools.json_calls import JsonCalls

OPEN, CLOSE = "<tool_call>", "</tool_call>"
MARKS = (OPEN, CLOSE)


def hermes(calls: Calls) -> CallParser:
    """The family's parser."""
    return CallParser(calls, (OPEN,), lambda _: JsonCalls(CLOSE))
