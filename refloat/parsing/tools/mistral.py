"""Mistral, Ministral, Devstral: `[TOOL_CALLS]` and a JSON list, or `[TOOL_CALLS]name[ARGS]{...}`."""

from refloat.parsing.calls import Calls
from refloat.parsing.tools.driver import CallParser, CallReader, EitherReader
from refloat.parsing.tools.json_calls import JsonCalls
from refloat.parsing.tools.named_json import Header, NamedCalls, NamedFormat, Verdict, name_until

OPEN, ARGUMENTS, ID = "[TOOL_CALLS]", "[ARGS]", "[CALL_ID]"
MARKS = (OPEN, ARGUMENTS, ID)
_MOST_ID_CHARS = 64


def mistral(calls: Calls) -> CallParser:
    """The family's parser."""
    return CallParser(calls, (OPEN,), lambda _: EitherReader(_reader))


def _reader(first: str) -> CallReader:
    return JsonCalls() if first in "[{" else NamedCalls(_FORMAT, OPEN)


def _header(text: str, start: int) -> Header | Verdict:
    """`name[ARGS]`, `name[CALL_ID]id[ARGS]`, or a name with its arguments right behind it."""
    header = name_until(text, start, (ARGUMENTS, ID, "{"))
    if isinstance(header, Verdict):
        return header
    if text.startswith("{", header.end - 1):
        return Header(header.name, header.end - 1)
    if text.startswith(ARGUMENTS, header.end - len(ARGUMENTS)):
        return header
    behind = name_until(text, header.end, (ARGUMENTS,), _MOST_ID_CHARS)
    return behind if isinstance(behind, Verdict) else Header(header.name, behind.end)


_FORMAT = NamedFormat(_header, opens=OPEN)
