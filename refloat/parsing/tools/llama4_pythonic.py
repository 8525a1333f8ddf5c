"""Llama 4 (and 3.2 at times): an answer that is nothing but `[name(key=value), ...]`."""

from refloat.parsing.calls import Calls
from refloat.parsing.tools.driver import CallParser
from refloat.parsing.tools.pythonic import PythonicCalls, PythonicFormat

OPEN, CLOSE = "<|python_start|>", "<|python_end|>"
MARKS = (OPEN, CLOSE)


def llama4_pythonic(calls: Calls) -> CallParser:
    """The family's parser."""
    return CallParser(
        calls, (OPEN,), lambda _: PythonicCalls(PythonicFormat(close=CLOSE)), bare=("[",)
    )
