"""Stop strings, found in text that arrives in pieces. Knows nothing of tokens or stop ids.

The result depends on the text alone, never on how it was cut: characters go in one by one as far as
meaning is concerned, and what ends the text is the stop string that is complete first (of two that
are complete at the same character, the longer). Only what may still become a stop string is held.
"""

from collections.abc import Iterable
from typing import NamedTuple


class StopScan(NamedTuple):
    """What one piece of text brought."""

    text: str
    """May go out now."""
    stopped: bool


class _Pattern:
    """One stop string and how much of it the text so far ends with (Knuth-Morris-Pratt)."""

    __slots__ = ("fallback", "matched", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        self.matched = 0
        fallback = [0] * len(text)
        length = 0
        for index in range(1, len(text)):
            while length and text[index] != text[length]:
                length = fallback[length - 1]
            length += text[index] == text[length]
            fallback[index] = length
        self.fallback = fallback

    def scan(self, piece: str) -> int | None:
        """Take a piece; where in it the stop string is complete for the first time, if anywhere."""
        text = self.text
        matched = self.matched
        start = 0 if matched else piece.find(text[0])
        if start < 0:
            return None
        for position in range(start, len(piece)):
            char = piece[position]
            while matched and text[matched] != char:
                matched = self.fallback[matched - 1]
            if text[matched] == char:
                matched += 1
                if matched == len(text):
                    return position + 1
        self.matched = matched
        return None


class StopFinder:
    """Finds the first of several stop strings. Linear in the text, whatever the strings are."""

    def __init__(self, stop: Iterable[str], *, include_stop: bool = False) -> None:
        """Empty stop strings never match; with `include_stop` the one found is part of the text."""
        self._patterns = [_Pattern(text) for text in dict.fromkeys(stop) if text]
        self._include_stop = include_stop
        self._held = ""
        self._stopped = False
        self.found: str | None = None
        """The one that ended the text."""

    def push(self, text: str) -> StopScan:
        """Take the next piece; nothing more comes out once a stop string was found."""
        if self._stopped:
            return StopScan("", True)
        end, length = len(text) + 1, 0
        for pattern in self._patterns:
            found = pattern.scan(text)
            if found is not None and (found, -len(pattern.text)) < (end, -length):
                end, length = found, len(pattern.text)
                self.found = pattern.text
        if length:
            return self._end(text[:end], length)
        return self._release(self._held + text)

    def flush(self) -> str:
        """The text has ended by itself: what was held goes out."""
        held, self._held = self._held, ""
        self._stopped = True
        return held

    def _release(self, known: str) -> StopScan:
        matched = max((pattern.matched for pattern in self._patterns), default=0)
        if self._include_stop:
            # Where the stop string is to be shown there is nothing to hide, so nothing to wait for.
            return StopScan(known, False)
        self._held = known[len(known) - matched :]
        return StopScan(known[: len(known) - matched], False)

    def _end(self, text: str, found: int) -> StopScan:
        known = self._held + text
        self._held = ""
        self._stopped = True
        return StopScan(known if self._include_stop else known[: len(known) - found], True)
