"""One choice's text while it is parsed, and what its calls have come to. Knows no format."""

from refloat.parsing.parts import CallBegin, CallEnd, Parser, Part


class Reading:
    """Lives as long as its choice, whichever workers it has."""

    __slots__ = ("_is_open", "_parser", "_whole")

    def __init__(self, parser: Parser) -> None:
        self._parser = parser
        self._is_open = False
        self._whole = 0

    @property
    def is_done(self) -> bool:
        """Nothing that may follow is wanted."""
        return self._parser.is_done

    @property
    def has_called(self) -> bool:
        """There were calls, and all are whole."""
        return self._whole > 0 and not self._is_open

    def push(self, text: str) -> list[Part]:
        """Take more text."""
        return self._noted(self._parser.push(text)) if text else []

    def finish(self, *, cut: bool) -> list[Part]:
        """No more text comes; `cut`: not because the model ended it."""
        return self._noted(self._parser.finish(cut=cut))

    def _noted(self, parts: list[Part]) -> list[Part]:
        for part in parts:
            if isinstance(part, CallBegin):
                self._is_open = True
            elif isinstance(part, CallEnd):
                self._is_open = False
                self._whole += 1
        return parts
