"""GLM 4.5 and later: `<tool_call>name<arg_key>k</arg_key><arg_value>v</arg_value></tool_call>`."""

from refloat.parsing.calls import Calls
from refloat.parsing.tags import BLANKS, skip_blanks
from refloat.parsing.tools.driver import CallParser
from refloat.parsing.tools.named_json import Header, Verdict
from refloat.parsing.tools.tagged_values import TaggedCalls, TaggedFormat

OPEN, CLOSE = "<tool_call>", "</tool_call>"
KEY, KEY_END, VALUE, VALUE_END = "<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>"
MARKS = (OPEN, CLOSE, KEY, KEY_END, VALUE, VALUE_END)
_MOST_NAME_CHARS = 256


def glm(calls: Calls) -> CallParser:
    """The family's parser."""
    return CallParser(calls, (OPEN,), lambda _: TaggedCalls(_FORMAT))


def _header(text: str, start: int) -> Header | Verdict:
    """A name up to a blank or a tag."""
    begin = at = skip_blanks(text, start)
    while at < len(text) and text[at] not in BLANKS and text[at] != "<":
        at += 1
    if at - begin > _MOST_NAME_CHARS:
        return Verdict.NO
    if at == len(text):
        return Verdict.MORE
    behind = skip_blanks(text, at)
    if behind == len(text):
        return Verdict.MORE
    return Header(text[begin:at], behind) if text[behind] == "<" and at > begin else Verdict.NO


_FORMAT = TaggedFormat(
    _header,
    key_open=KEY,
    key_close=KEY_END,
    value_open=VALUE,
    value_close=VALUE_END,
    call_close=CLOSE,
    call_open=OPEN,
)
