"""The text a parser has not used up, and a place in it to which it can go back."""

#: Text that is held back is read again with every piece that comes, up to this length. Of a longer
#: one only when it has grown by a share of itself: what never closes would else cost the square.
_MUCH_CHARS = 2048
_SHARE = 16


class Source:
    """Text at the front, more to come at the back. Plain data."""

    __slots__ = ("_late", "_late_chars", "at", "certain", "ended", "mark", "text")

    def __init__(self) -> None:
        self.text = ""
        self.at = 0
        """Where the next unread character stands."""
        self.mark: int | None = None
        """From here on the text is kept, since it may turn out to be no call."""
        self.certain = 0
        """Characters behind the mark that are text for certain if it is none."""
        self.ended = False
        """No more text comes."""
        self._late: list[str] = []
        """Came, and is not worth a look yet."""
        self._late_chars = 0

    def add(self, text: str) -> bool:
        """More text; whether it is worth a look now. What lies before both places is forgotten."""
        start = self.at if self.mark is None else min(self.at, self.mark)
        held = len(self.text) - start
        if held > _MUCH_CHARS:
            self._late.append(text)
            self._late_chars += len(text)
            if self._late_chars < held // _SHARE:
                return False
            text = self._take_late()
        self._append(text, start)
        return True

    def settle(self) -> bool:
        """The text is wanted as far as it came; whether there is more of it by that."""
        if not self._late:
            return False
        start = self.at if self.mark is None else min(self.at, self.mark)
        self._append(self._take_late(), start)
        return True

    def end(self) -> None:
        """No more text comes."""
        self.settle()
        self.ended = True

    def _take_late(self) -> str:
        text = "".join(self._late)
        self._late.clear()
        self._late_chars = 0
        return text

    def _append(self, text: str, start: int) -> None:
        self.text = self.text[start:] + text if start < len(self.text) else text
        self.at -= start
        if self.mark is not None:
            self.mark -= start

    def hold(self, mark: int, certain: int) -> None:
        """Keep the text from a place on, until `commit`."""
        self.mark = mark
        self.certain = certain

    def commit(self) -> None:
        """What was read is settled."""
        self.mark = None

    def take(self, end: int) -> str:
        """The text up to a place, which is read by that."""
        text = self.text[self.at : end]
        self.at = end
        return text

    @property
    def is_empty(self) -> bool:
        """Whether all was read."""
        return self.at >= len(self.text)
