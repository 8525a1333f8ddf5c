"""Kimi K2: a section of `<|tool_call_begin|>functions.name:0<|tool_call_argument_begin|>{...}`."""

import re

from refloat.parsing.calls import Calls
from refloat.parsing.tools.driver import CallParser
from refloat.parsing.tools.named_json import Header, NamedCalls, NamedFormat, Verdict, name_until

SECTION, SECTION_END = "<|tool_calls_section_begin|>", "<|tool_calls_section_end|>"
OPEN, CLOSE = "<|tool_call_begin|>", "<|tool_call_end|>"
ARGUMENTS = "<|tool_call_argument_begin|>"
MARKS = (SECTION, SECTION_END, OPEN, CLOSE, ARGUMENTS)
_NUMBER = re.compile(r":\d+$")


def kimi_k2(calls: Calls) -> CallParser:
    """The family's parser."""
    return CallParser(calls, (SECTION, OPEN), lambda opening: NamedCalls(_FORMAT, opening))


def _header(text: str, start: int) -> Header | Verdict:
    header = name_until(text, start, (ARGUMENTS,))
    if isinstance(header, Verdict):
        return header
    return Header(_NUMBER.sub("", header.name), header.end)


_FORMAT = NamedFormat(
    _header, opens=OPEN, closes=(CLOSE,), section=SECTION, section_end=SECTION_END
)
