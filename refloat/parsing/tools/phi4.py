"""Phi-4-mini: a JSON list of calls behind `functools` or between `<|tool_call|>` marks."""

from refloat.parsing.calls import Calls
from refloat.parsing.tools.driver import CallParser
from refloat.parsing.tools.json_calls import JsonCalls

OPEN, CLOSE = "<|tool_call|>", "<|/tool_call|>"
#: The bracket belongs to it: the word alone is a word.
WORD = "functools["
MARKS = (OPEN, CLOSE)


def phi4(calls: Calls) -> CallParser:
    """The family's parser."""
    return CallParser(calls, (OPEN, WORD), _reader)


def _reader(opening: str) -> JsonCalls:
    return JsonCalls(CLOSE) if opening == OPEN else JsonCalls(listed=True)
