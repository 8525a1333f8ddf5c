"""Gemma: `<|tool_call>call:name{key:<|"|>text<|"|>,...}<tool_call|>`; FunctionGemma has other marks."""

from refloat.parsing.calls import Calls
from refloat.parsing.tools.driver import CallParser
from refloat.parsing.tools.literals import Writing
from refloat.parsing.tools.pythonic import PythonicCalls, PythonicFormat

OPEN, CLOSE, QUOTE = "<|tool_call>", "<tool_call|>", '<|"|>'
OLD_OPEN, OLD_CLOSE, OLD_QUOTE = "<start_function_call>", "<end_function_call>", "<escape>"
MARKS = (OPEN, CLOSE, QUOTE, OLD_OPEN, OLD_CLOSE, OLD_QUOTE)


def gemma(calls: Calls) -> CallParser:
    """The family's parser."""
    return CallParser(calls, (OPEN, OLD_OPEN), lambda opening: PythonicCalls(_FORMATS[opening]))


_NEW = PythonicFormat(
    CLOSE,
    prefix="call:",
    opens="{",
    closes="}",
    assigns=":",
    listed=False,
    writing=Writing((QUOTE,), escapes=False),
)
_FORMATS = {
    OPEN: _NEW,
    OLD_OPEN: _NEW._replace(close=OLD_CLOSE, writing=Writing((OLD_QUOTE,), escapes=False)),
}
