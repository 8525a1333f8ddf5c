"""Finds where calls begin in a text, has a format's reader read them, and lets the rest through.

Blanks between text and a call are markup: those before a call come out only if more text follows the
call, those behind it never. All else that does not become a call is text, to the character.
"""

from collections.abc import Callable, Iterable
from enum import Enum
from typing import Protocol

from refloat.parsing.calls import Calls
from refloat.parsing.parts import Part
from refloat.parsing.source import Source
from refloat.parsing.tags import BLANKS, Found, TagFinder, blank_tail, skip_blanks

#: An answer of openings one in another, none of which becomes a call, is text from here on: each of
#: them is read to the answer's end.
_MOST_IN_VAIN = 100_000


class Outcome(Enum):
    """How far a reader came."""

    MORE = "more"
    """It needs more text."""
    DONE = "done"
    """Its calls are over; the text goes on behind them."""
    REJECT = "reject"
    """This is no call: what stands since the mark is text."""


class CallReader(Protocol):
    """Reads what follows an opening mark: one call or several."""

    def read(self, source: Source, calls: Calls) -> Outcome:
        """Go as far as the text goes. With `source.ended` never `MORE`, unless calls were cut.

        Whoever begins a call commits the source; `REJECT` needs a mark in it.
        """
        ...

    def cut(self, source: Source, calls: Calls) -> None:
        """A limit ended the text inside: give out what came of an open call, invent nothing."""
        ...


class EitherReader:
    """A `CallReader` for two formats that begin alike: the first character tells which one it is."""

    __slots__ = ("_blanks", "_choose", "_reader")

    def __init__(self, choose: Callable[[str], CallReader], blanks: str = BLANKS) -> None:
        """`choose` makes the reader from the first character that is none of `blanks`."""
        self._choose = choose
        self._blanks = blanks
        self._reader: CallReader | None = None

    def read(self, source: Source, calls: Calls) -> Outcome:
        """See `CallReader`."""
        if self._reader is None:
            at = skip_blanks(source.text, source.at, self._blanks)
            if at == len(source.text):
                return Outcome.REJECT if source.ended else Outcome.MORE
            self._reader = self._choose(source.text[at])
        return self._reader.read(source, calls)

    def cut(self, source: Source, calls: Calls) -> None:
        """See `CallReader`."""
        if self._reader is not None:
            self._reader.cut(source, calls)


class CallParser:
    """A `Parser` (`parts.py`) for one format."""

    def __init__(
        self,
        calls: Calls,
        openings: Iterable[str],
        reader: Callable[[str], CallReader],
        *,
        bare: tuple[str, ...] = (),
    ) -> None:
        """`openings` are the marks behind which calls stand, `bare` what a call itself begins with
        where an answer may begin with it, unmarked. `reader` makes a reader for what was found; a
        bare beginning is left to the reader, an opening is not."""
        self._finder = TagFinder(openings)
        self._new_reader = reader
        self._bare = bare
        self._source = Source()
        self._calls = calls
        self._reader: CallReader | None = None
        self._in_vain = 0
        """Characters read of what was no call, each time anew."""
        self._at_start = True
        """No text has come out, so that a bare call may begin."""
        self._after_call = False
        self._blanks = ""
        """Stood before a call: part of the text only if text follows."""
        self._before = ""
        """The same, of what is being read and may be no call."""

    @property
    def is_done(self) -> bool:
        """Nothing that may follow is wanted."""
        return self._calls.is_full

    def push(self, text: str) -> list[Part]:
        """Take more text."""
        if self._source.add(text):
            self._run()
        return self._calls.take()

    def finish(self, *, cut: bool) -> list[Part]:
        """No more text comes. A call that a limit cut before its name was known is left out."""
        if self._source.settle():
            self._run()
        if cut and self._reader is not None and not self.is_done:
            self._reader.cut(self._source, self._calls)
            return self._calls.take()
        self._source.end()
        self._run()
        return self._calls.take()

    def _run(self) -> None:
        source = self._source
        while not self._calls.is_full:
            if self._reader is None:
                if not self._text():
                    return
                continue
            outcome = self._reader.read(source, self._calls)
            if outcome is Outcome.MORE:
                return
            self._reader = None
            if outcome is Outcome.REJECT:
                self._give_back()
            else:
                source.commit()
                self._after_call = True
                self._blanks = self._blanks or self._before

    def _give_back(self) -> None:
        source = self._source
        assert source.mark is not None
        self._in_vain += source.at - source.mark
        if self._in_vain > _MOST_IN_VAIN:
            self._finder = TagFinder(())
        source.at = source.mark
        source.commit()
        self._say(source.take(source.at + source.certain))

    def _text(self) -> bool:
        """Let text through up to an opening. Whether there is more to do."""
        source = self._source
        text = source.text
        if self._after_call:
            source.at = skip_blanks(text, source.at)
            self._after_call = source.is_empty
        if source.is_empty:
            return False
        if self._at_start and self._bare:
            verdict = self._bare_beginning()
            if verdict is not None:
                return verdict
        found = self._finder.find(text, source.at)
        if found is not None and (source.ended or self._finder.is_settled(text, found)):
            self._open(found, blank_tail(text, source.at, found.start))
            return True
        end = found.start if found else self._finder.safe_end(text, source.at)
        if not source.ended:
            self._say(source.take(blank_tail(text, source.at, end)))
            return False
        self._say(source.take(len(text)))
        return False

    def _bare_beginning(self) -> bool | None:
        """Whether a call that has no opening begins here: true, not yet known, or no (`None`)."""
        source = self._source
        start = skip_blanks(source.text, source.at)
        if start == len(source.text):
            return None if source.ended else False
        for sign in self._bare:
            if source.text.startswith(sign, start):
                self._open(Found(start, ""), source.at, sign)
                return True
        return None

    def _open(self, found: Found, mark: int, sign: str = "") -> None:
        source = self._source
        self._say(source.take(mark))
        self._before = "" if self._at_start else source.text[mark : found.start]
        # Of a bare beginning the first sign is text if it is rejected, so it is not tried again.
        source.hold(mark, found.end - mark + len(sign))
        source.at = found.end
        self._reader = self._new_reader(found.tag or sign)

    def _say(self, text: str) -> None:
        if text:
            self._at_start = False
            self._calls.content(self._blanks + text)
            self._blanks = ""
