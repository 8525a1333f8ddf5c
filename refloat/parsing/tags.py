"""Literal tags in text that arrives in pieces: where one stands, and how much may still become one."""

import re
from collections.abc import Iterable
from functools import cache
from typing import NamedTuple

#: What counts as blank between marks; nothing else is ever trimmed.
BLANKS = " \t\r\n"


class Found(NamedTuple):
    """A tag in a text."""

    start: int
    tag: str

    @property
    def end(self) -> int:
        """Behind the tag."""
        return self.start + len(self.tag)


class TagFinder:
    """Finds the first of several tags; of two that begin at one place, the longer."""

    __slots__ = ("_firsts", "_longest", "_pattern", "tags")

    def __init__(self, tags: Iterable[str]) -> None:
        """Empty tags never match."""
        self.tags = tuple(sorted({tag for tag in tags if tag}, key=len, reverse=True))
        self._firsts = frozenset(tag[0] for tag in self.tags)
        self._longest = max(map(len, self.tags), default=0)
        self._pattern = re.compile("|".join(map(re.escape, self.tags)) or r"(?!)")

    def find(self, text: str, start: int) -> Found | None:
        """The first whole tag from `start` on."""
        match = self._pattern.search(text, start)
        return None if match is None else Found(match.start(), match[0])

    def safe_end(self, text: str, start: int) -> int:
        """Up to where the text, which holds no whole tag, can be part of none, whatever follows."""
        for position in range(max(start, len(text) - self._longest + 1), len(text)):
            if text[position] in self._firsts and self._may_begin(text[position:]):
                return position
        return len(text)

    def is_settled(self, text: str, found: Found) -> bool:
        """Whether no longer tag can begin where one was found, whatever follows."""
        rest = text[found.start :]
        return not any(len(tag) > len(rest) and tag.startswith(rest) for tag in self.tags)

    def _may_begin(self, rest: str) -> bool:
        return any(tag.startswith(rest) for tag in self.tags)


class Seen(NamedTuple):
    """What stands at a place: a whole tag, maybe the beginning of one, or neither."""

    tag: str | None
    may_come: bool


def look(text: str, start: int, tags: Iterable[str]) -> Seen:
    """Which of the tags stands at `start`; of several, the longest."""
    rest_length = len(text) - start
    best: str | None = None
    may_come = False
    for tag in tags:
        if text.startswith(tag, start):
            if best is None or len(tag) > len(best):
                best = tag
        elif len(tag) > rest_length and tag.startswith(text[start:]):
            may_come = True
    return Seen(best, may_come)


def skip_blanks(text: str, start: int, blanks: str = BLANKS) -> int:
    """The first place from `start` on that is not blank."""
    run = _run_of(blanks).match(text, start)
    return start if run is None else run.end()


def blank_tail(text: str, start: int, end: int) -> int:
    """Where the blanks begin with which `text[start:end]` ends."""
    if end <= start or text[end - 1] not in BLANKS:
        return end
    return start + len(text[start:end].rstrip(BLANKS))


@cache
def _run_of(chars: str) -> re.Pattern[str]:
    return re.compile(f"[{re.escape(chars)}]+")
