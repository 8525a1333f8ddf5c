"""LFM2: `<|tool_call_start|>[name(key=value), ...]<|tool_call_end|>`, or a JSON list if told so."""

from refloat.parsing.calls import Calls
from refloat.parsing.tools.driver import CallParser, CallReader, EitherReader
from refloat.parsing.tools.json_calls import JsonCalls
from refloat.parsing.tools.pythonic import PythonicCalls, PythonicFormat

OPEN, CLOSE = "<|tool_call_start|>", "<|tool_call_end|>"
MARKS = (OPEN, CLOSE)


def lfm2(calls: Calls) -> CallParser:
    """The family's parser."""
    return CallParser(calls, (OPEN,), lambda _: EitherReader(_reader, " \n\r\t["))


def _reader(first: str) -> CallReader:
    return JsonCalls(CLOSE) if first == "{" else PythonicCalls(PythonicFormat(CLOSE))
