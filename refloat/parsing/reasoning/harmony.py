"""gpt-oss: messages in channels (`<|channel|>analysis<|message|>...<|end|>`), calls among them.

`analysis` is reasoning, `final` and `commentary` are text, and a message to a declared function is a
call. What is no known form loses its marks and stays text: marks never reach the client, whose next
request would be refused by the template for them.
"""

import re

from refloat.parsing.calls import Calls
from refloat.parsing.partial_json import JsonValue
from refloat.parsing.parts import Part
from refloat.parsing.source import Source
from refloat.parsing.tags import TagFinder, skip_blanks

START, CHANNEL, MESSAGE, CONSTRAIN = "<|start|>", "<|channel|>", "<|message|>", "<|constrain|>"
END, RETURN, CALL = "<|end|>", "<|return|>", "<|call|>"
MARKS = (START, CHANNEL, MESSAGE, CONSTRAIN, END, RETURN, CALL)
_RECIPIENT = re.compile(r"\bto=([^\s<]+)")
_CHANNEL_NAME = re.compile(re.escape(CHANNEL) + r"\s*(\w+)")
_MOST_HEADER_CHARS = 512


class HarmonyParser:
    """A `Parser` (`parts.py`) for reasoning and calls at once."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self._source = Source()
        self._marks = TagFinder(MARKS)
        self._state = "begin"
        self._is_reasoning = False
        self._value = JsonValue()

    @property
    def is_done(self) -> bool:
        """Nothing that may follow is wanted."""
        return self._calls.is_full

    @property
    def is_inside(self) -> bool:
        """Whether the text is reasoning at present."""
        return self._state == "text" and self._is_reasoning

    def push(self, text: str) -> list[Part]:
        """Take more text."""
        if self._source.add(text):
            self._run()
        return self._calls.take()

    def finish(self, *, cut: bool) -> list[Part]:
        """No more text comes. The model ends a call with a token that ends the answer too."""
        if self._source.settle():
            self._run()
        if cut and self._state == "header":
            return self._calls.take()
        self._source.end()
        self._run()
        if self._calls.is_open and not cut:
            self._calls.end()
        return self._calls.take()

    def _run(self) -> None:
        while not self._source.is_empty and not self.is_done:
            match self._state:
                case "begin":
                    moved = self._begin()
                case "header":
                    moved = self._header()
                case "arguments":
                    moved = self._arguments()
                case _:
                    moved = self._text()
            if not moved:
                return

    def _begin(self) -> bool:
        """The prompt ends in the middle of a header; an answer that does not go on with it is text."""
        source = self._source
        at = skip_blanks(source.text, source.at)
        rest = source.text[at : at + len(START)]
        if rest.startswith(("<|", "to=")):
            self._state = "header"
        elif "<|".startswith(rest) or "to=".startswith(rest):
            if not source.ended:
                return False
            self._state = "text"
        else:
            self._state = "text"
        return True

    def _header(self) -> bool:
        """All up to `<|message|>`."""
        source = self._source
        text = source.text
        end = text.find(MESSAGE, source.at, source.at + _MOST_HEADER_CHARS)
        if end >= 0:
            self._enter(source.take(end))
            source.at += len(MESSAGE)
            return True
        if not source.ended and len(text) - source.at < _MOST_HEADER_CHARS + len(MESSAGE):
            return False
        found = self._marks.find(text, source.at)
        if found is not None and found.start == source.at:
            source.at = found.end
        self._is_reasoning = False
        self._state = "text"
        return True

    def _enter(self, header: str) -> None:
        """A message begins; of several headers in one the last counts."""
        recipient = _RECIPIENT.findall(header)
        channel = _CHANNEL_NAME.findall(header)
        self._is_reasoning = bool(channel) and channel[-1] == "analysis" and not recipient
        if recipient and self._calls.begin(recipient[-1]):
            self._value = JsonValue()
            self._state = "arguments"
        else:
            self._state = "text"

    def _text(self) -> bool:
        source = self._source
        found = self._marks.find(source.text, source.at)
        end = len(source.text) if source.ended else self._marks.safe_end(source.text, source.at)
        text = source.take(end if found is None else found.start)
        (self._calls.reasoning if self._is_reasoning else self._calls.content)(text)
        if found is None:
            return False
        if found.tag in (START, CHANNEL):
            self._state = "header"
        else:
            source.at = found.end
            self._is_reasoning = False
        return True

    def _arguments(self) -> bool:
        """JSON, whose strings may hold what looks like marks; broken JSON goes up to a mark."""
        source, value = self._source, self._value
        if not value.kind and not value.is_broken:
            source.at = skip_blanks(source.text, source.at)
            if source.is_empty:
                return False
        if value.is_broken or (not value.kind and source.text[source.at] not in '{["'):
            value.is_broken = True
            return self._broken()
        piece = value.feed(source.text, source.at)
        source.at = piece.end
        self._calls.arguments(piece.text)
        if value.is_done:
            self._end_call()
        return value.is_done or value.is_broken

    def _broken(self) -> bool:
        source = self._source
        found = self._marks.find(source.text, source.at)
        end = len(source.text) if source.ended else self._marks.safe_end(source.text, source.at)
        self._calls.arguments(source.take(end if found is None else found.start))
        if found is not None:
            self._end_call()
        return found is not None

    def _end_call(self) -> None:
        self._calls.end()
        self._is_reasoning = False
        self._state = "text"
