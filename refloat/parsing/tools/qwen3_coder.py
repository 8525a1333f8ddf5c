"""Qwen3-Coder, Qwen 3.5 and others: `<tool_call><function=name><parameter=key>value</parameter>`."""

from refloat.parsing.calls import Calls
from refloat.parsing.tags import look, skip_blanks
from refloat.parsing.tools.driver import CallParser
from refloat.parsing.tools.named_json import Header, Verdict, name_until
from refloat.parsing.tools.tagged_values import TaggedCalls, TaggedFormat

OPEN, CLOSE = "<tool_call>", "</tool_call>"
SEED_OPEN, SEED_CLOSE = "<seed:tool_call>", "</seed:tool_call>"
FUNCTION = "<function="
MARKS = (OPEN, CLOSE, SEED_OPEN, SEED_CLOSE)


def qwen3_coder(calls: Calls) -> CallParser:
    """The family's parser. Models leave the wrapper out at times."""
    return CallParser(calls, (OPEN, FUNCTION), _reader)


def seed_oss(calls: Calls) -> CallParser:
    """The same with Seed-OSS's own wrapper."""
    return CallParser(calls, (SEED_OPEN, FUNCTION), _reader)


def _reader(opening: str) -> TaggedCalls:
    if opening == FUNCTION:
        return TaggedCalls(_FORMAT)
    if opening == SEED_OPEN:
        return TaggedCalls(_WRAPPED._replace(wrapper_close=SEED_CLOSE, pad=""))
    return TaggedCalls(_WRAPPED)


def _header(text: str, start: int) -> Header | Verdict:
    return name_until(text, start, (">",))


def _wrapped_header(text: str, start: int) -> Header | Verdict:
    at = skip_blanks(text, start)
    seen = look(text, at, (FUNCTION,))
    if seen.tag is None:
        return Verdict.MORE if seen.may_come else Verdict.NO
    return _header(text, at + len(seen.tag))


_FORMAT = TaggedFormat(
    _header,
    key_open="<parameter=",
    key_close=">",
    value_open="",
    value_close="</parameter>",
    call_close="</function>",
    call_open=FUNCTION,
    pad="\n",
)
_WRAPPED = _FORMAT._replace(header=_wrapped_header, wrapper_close=CLOSE)
