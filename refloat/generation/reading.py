"""One choice's text while it is parsed, and what its calls have come to. Knows no format."""

import traceback

from refloat.observe.log import get_logger
from refloat.parsing.parts import CallBegin, CallEnd, Content, Parser, Part, Reasoning

_log = get_logger(__name__)


class Reading:
    """Lives as long as its choice, whichever workers it has."""

    __slots__ = ("_is_open", "_parser", "_thinks", "_whole", "reasoning_tokens")

    def __init__(self, parser: Parser) -> None:
        self._parser: Parser | None = parser
        """`None`: it failed, and the text goes through as it is."""
        self._is_open = False
        self._whole = 0
        self._thinks = False
        """What came out last was reasoning."""
        self.reasoning_tokens = 0
        """Of which reasoning came out, or nothing while it was going on."""

    @property
    def is_done(self) -> bool:
        """Nothing that may follow is wanted."""
        return self._parser is not None and self._parser.is_done

    @property
    def has_called(self) -> bool:
        """There were calls, and all are whole."""
        return self._whole > 0 and not self._is_open

    def push(self, text: str, tokens: int = 0) -> list[Part]:
        """Take more text, which is that of so many tokens."""
        if self._parser is None:
            return [Content(text)] if text else []
        if not text:
            self._count([], tokens)
            return []
        try:
            parts = self._parser.push(text)
        except Exception as error:  # noqa: BLE001 - logged; one answer's markup ends no other answer
            self._give_up(error)
            return [Content(text)]
        self._count(parts, tokens)
        return self._noted(parts)

    def finish(self, *, cut: bool) -> list[Part]:
        """No more text comes; `cut`: not because the model ended it."""
        if self._parser is None:
            return []
        try:
            parts = self._parser.finish(cut=cut)
        except Exception as error:  # noqa: BLE001 - logged; one answer's markup ends no other answer
            self._give_up(error)
            return []
        return self._noted(parts)

    def _count(self, parts: list[Part], tokens: int) -> None:
        if not parts:
            self.reasoning_tokens += tokens if self._thinks else 0
            return
        self._thinks = isinstance(parts[-1], Reasoning)
        if self._thinks or any(isinstance(part, Reasoning) for part in parts):
            self.reasoning_tokens += tokens

    def _give_up(self, error: Exception) -> None:
        """A parser that fails is a defect of ours, which must not cost the answer. Of the error only
        where it was is told: its message may hold what the model said."""
        frames = traceback.extract_tb(error.__traceback__)[-3:]
        where = ", ".join(f"{frame.name}:{frame.lineno}" for frame in frames)
        _log.error("parser failed", error=type(error).__name__, where=where)
        self._parser = None

    def _noted(self, parts: list[Part]) -> list[Part]:
        for part in parts:
            if isinstance(part, CallBegin):
                self._is_open = True
            elif isinstance(part, CallEnd):
                self._is_open = False
                self._whole += 1
        return parts
