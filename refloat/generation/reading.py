"""One choice's text while it is parsed, and what its calls have come to. Knows no format."""

import traceback

from refloat.observe.log import get_logger
from refloat.parsing.parts import CallBegin, CallEnd, Content, Parser, Part

_log = get_logger(__name__)


class Reading:
    """Lives as long as its choice, whichever workers it has."""

    __slots__ = ("_is_open", "_parser", "_whole")

    def __init__(self, parser: Parser) -> None:
        self._parser: Parser | None = parser
        """`None`: it failed, and the text goes through as it is."""
        self._is_open = False
        self._whole = 0

    @property
    def is_done(self) -> bool:
        """Nothing that may follow is wanted."""
        return self._parser is not None and self._parser.is_done

    @property
    def has_called(self) -> bool:
        """There were calls, and all are whole."""
        return self._whole > 0 and not self._is_open

    def push(self, text: str) -> list[Part]:
        """Take more text."""
        if not text:
            return []
        if self._parser is None:
            return [Content(text)]
        try:
            parts = self._parser.push(text)
        except Exception as error:  # noqa: BLE001 - logged; one answer's markup ends no other answer
            self._give_up(error)
            return [Content(text)]
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
