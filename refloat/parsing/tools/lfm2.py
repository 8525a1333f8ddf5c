"""LFM2: `<|tool_call_start|>[name(key=value), ...]<|tool_call_end|>`, or a JSON list if told so."""

from refloat.parsing.calls import Calls
from refloat.parsing.source import Source
from refloat.parsing.tags import skip_blanks
from refloat.parsing.tools.driver import CallParser, CallReader, Outcome
from refloat.parsing.tools.json_calls import JsonCalls
from refloat.parsing.tools.pythonic import PythonicCalls, PythonicFormat

OPEN, CLOSE = "<|tool_call_start|>", "<|tool_call_end|>"
MARKS = (OPEN, CLOSE)


def lfm2(calls: Calls) -> CallParser:
    """The family's parser."""
    return CallParser(calls, (OPEN,), lambda _: _Either())


class _Either:
    """The first character inside the brackets tells which one it is."""

    __slots__ = ("_reader",)

    def __init__(self) -> None:
        self._reader: CallReader | None = None

    def read(self, source: Source, calls: Calls) -> Outcome:
        if self._reader is None:
            at = skip_blanks(source.text, source.at, " \n\r\t[")
            if at == len(source.text):
                return Outcome.REJECT if source.ended else Outcome.MORE
            is_json = source.text[at] == "{"
            self._reader = JsonCalls(CLOSE) if is_json else PythonicCalls(PythonicFormat(CLOSE))
        return self._reader.read(source, calls)

    def cut(self, source: Source, calls: Calls) -> None:
        if self._reader is not None:
            self._reader.cut(source, calls)
