"""DeepSeek: V3 and R1 (`function<sep>name`, arguments in a code fence) and V3.1 (`name<sep>{...}`)."""

from refloat.parsing.calls import Calls
from refloat.parsing.tags import look, skip_blanks
from refloat.parsing.tools.driver import CallParser
from refloat.parsing.tools.named_json import Header, NamedCalls, NamedFormat, Verdict, name_until

SECTION, SECTION_END = "<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>"
OPEN, CLOSE, SEPARATOR = "<｜tool▁call▁begin｜>", "<｜tool▁call▁end｜>", "<｜tool▁sep｜>"
MARKS = (SECTION, SECTION_END, OPEN, CLOSE, SEPARATOR)
_FENCE = "```json"
_KIND = "function"


def deepseek_v3(calls: Calls) -> CallParser:
    """The parser of V3 and R1."""
    return CallParser(calls, (SECTION, OPEN), lambda opening: NamedCalls(_V3, opening))


def deepseek_v31(calls: Calls) -> CallParser:
    """The parser of V3.1."""
    return CallParser(calls, (SECTION, OPEN), lambda opening: NamedCalls(_V31, opening))


def _header_v31(text: str, start: int) -> Header | Verdict:
    return name_until(text, start, (SEPARATOR,))


def _header_v3(text: str, start: int) -> Header | Verdict:
    """`function<sep>name`, a line's end, and a fence; V3.1's header as well."""
    kind = _header_v31(text, start)
    if isinstance(kind, Verdict):
        return kind
    if kind.name != _KIND:
        return kind
    header = name_until(text, kind.end, ("\n", "{", "```"))
    if isinstance(header, Verdict):
        return header
    at = skip_blanks(text, text.index(header.name, kind.end) + len(header.name))
    seen = look(text, at, (_FENCE,))
    if seen.may_come:
        return Verdict.MORE
    return Header(header.name, at + len(seen.tag or ""))


_V31 = NamedFormat(
    _header_v31,
    opens=OPEN,
    closes=(CLOSE,),
    section=SECTION,
    section_end=SECTION_END,
)
_V3 = _V31._replace(header=_header_v3, chars="`")
