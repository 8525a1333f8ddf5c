"""MiniCPM: `<function name="..."><param name="key">value</param></function>`, with CDATA for text."""

from refloat.parsing.calls import Calls
from refloat.parsing.tools.driver import CallParser
from refloat.parsing.tools.named_json import Header, Verdict, name_until
from refloat.parsing.tools.tagged_values import TaggedCalls, TaggedFormat

OPEN = '<function name="'
MARKS = ("<function", "</function>", "<param", "</param>")


def minicpm(calls: Calls) -> CallParser:
    """The family's parser."""
    return CallParser(calls, (OPEN,), lambda _: TaggedCalls(_FORMAT))


def _header(text: str, start: int) -> Header | Verdict:
    return name_until(text, start, ('">',))


_FORMAT = TaggedFormat(
    _header,
    key_open='<param name="',
    key_close='">',
    value_open="",
    value_close="</param>",
    call_close="</function>",
    call_open=OPEN,
    cdata=True,
)
