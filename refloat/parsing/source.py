"""The text a parser has not used up, and a place in it to which it can go back."""


class Source:
    """Text at the front, more to come at the back. Plain data."""

    __slots__ = ("at", "certain", "ended", "mark", "text")

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

    def add(self, text: str) -> None:
        """More text. What lies before both places is forgotten."""
        start = self.at if self.mark is None else min(self.at, self.mark)
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
