"""What Llama models write, whichever of their two formats they were asked for: JSON objects, or calls
as in Python. Which one that is only matters where a call has to be made (`grammar/calls/forms.py`)."""

from refloat.parsing.calls import Calls
from refloat.parsing.tags import BLANKS
from refloat.parsing.tools.driver import CallParser, CallReader, EitherReader
from refloat.parsing.tools.json_calls import JsonCalls
from refloat.parsing.tools.pythonic import PythonicCalls, PythonicFormat

TAG = "<|python_tag|>"
#: Llama 4 puts calls between them; its template, what is said before calls.
OPEN, CLOSE = "<|python_start|>", "<|python_end|>"
MARKS = (TAG, OPEN, CLOSE)
OPENINGS = (*MARKS, OPEN + CLOSE)
BARE = ("{", "[")


def llama(calls: Calls) -> CallParser:
    """The families' parser."""
    return CallParser(calls, OPENINGS, _reader, bare=BARE)


def _reader(_opening: str) -> CallReader:
    pythonic = PythonicFormat(close=CLOSE)
    return EitherReader(
        lambda char: JsonCalls() if char == "{" else PythonicCalls(pythonic), BLANKS + "["
    )
