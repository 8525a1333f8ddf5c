"""Granite 3: `<|tool_call|>` and a JSON list of calls. (Granite 4 writes as `hermes` does.)"""

from refloat.parsing.calls import Calls
from refloat.parsing.tools.driver import CallParser
from refloat.parsing.tools.json_calls import JsonCalls

#: The second one is what Granite 3.0 writes.
OPENINGS = ("<|tool_call|>", "<tool_call>")
MARKS = OPENINGS


def granite(calls: Calls) -> CallParser:
    """The family's parser."""
    return CallParser(calls, OPENINGS, lambda _: JsonCalls())
