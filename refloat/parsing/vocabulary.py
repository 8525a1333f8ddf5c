"""The bytes of every token, as the gateway holds them. No decoding of text here: see `pipeline`."""

from array import array
from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import Self

from refloat.wire.messages import unpack_ids
from refloat.wire.prep_messages import TokenTable

#: Whole texts kept ready; beyond this many they are sliced out again (a bound, never reached by a
#: vocabulary of today).
_MAX_CACHED_TEXTS = 300_000
#: Among the views, the one that shows every control mark.
_WHOLE = frozenset(("",))


class Vocabulary:
    """A token table, looked up by id in constant time. Immutable; shared by all generations."""

    __slots__ = (
        "_blob",
        "_bounds",
        "_names",
        "_special",
        "_texts",
        "_views",
        "exact",
        "strip_leading_space",
    )

    def __init__(
        self,
        blob: bytes,
        bounds: Sequence[int],
        special: frozenset[int],
        *,
        strip_leading_space: bool,
        exact: bool,
    ) -> None:
        self._blob = blob
        self._bounds = bounds
        self._special = special
        self._texts: dict[int, str | None] = {}
        self._names: frozenset[bytes] | None = None
        """Of the control marks, once somebody asked."""
        self._views: dict[frozenset[str], Vocabulary] = {}
        self.strip_leading_space = strip_leading_space
        """A text loses one leading space (SentencePiece)."""
        self.exact = exact
        """Whether this table's text is the tokenizer's own, white space included."""

    @classmethod
    def from_table(cls, table: TokenTable) -> Self:
        """Raises `ValueError` if the lengths do not add up to the blob."""
        lengths = unpack_ids(table.lengths)
        bounds = array("q", accumulate(lengths, initial=0))
        if bounds[-1] != len(table.blob) or min(lengths, default=0) < 0:
            raise ValueError(f"token table of {len(table.blob)} bytes has lengths for {bounds[-1]}")
        return cls(
            table.blob,
            bounds,
            frozenset(table.special_ids),
            strip_leading_space=table.strip_leading_space,
            exact=table.exact,
        )

    def __len__(self) -> int:
        return len(self._bounds) - 1

    def is_special(self, token: int) -> bool:
        """Whether this token is a control mark and no part of any text."""
        return token in self._special

    def special_among(self, texts: Iterable[str]) -> frozenset[str]:
        """Those of some texts that are control marks here."""
        if self._names is None:
            self._names = frozenset(map(self.raw_of, self._special))
        return frozenset(text for text in texts if text.encode() in self._names)

    def showing(self, marks: frozenset[str]) -> "Vocabulary":
        """The same table with some control marks as part of the text, for those who parse them."""
        if not marks:
            return self
        shown = {mark.encode() for mark in marks}
        left = (token for token in self._special if self.raw_of(token) not in shown)
        return self._view(marks, left)

    def whole(self) -> "Vocabulary":
        """The same table with all control marks as part of the text, as a grammar sees it."""
        return self._view(_WHOLE, ())

    def _view(self, marks: frozenset[str], special: Iterable[int]) -> "Vocabulary":
        view = self._views.get(marks)
        if view is None:
            view = self._views[marks] = Vocabulary(
                self._blob,
                self._bounds,
                frozenset(special),
                strip_leading_space=self.strip_leading_space,
                exact=self.exact,
            )
        return view

    def tail_text(self, ids: Sequence[int]) -> str:
        """The text of ids with all control marks; broken characters at its ends do not matter."""
        return b"".join(map(self.raw_of, ids)).decode(errors="replace")

    def raw_of(self, token: int) -> bytes:
        """The token's bytes, control marks spelt out. Ids outside the table have none: a model's
        output layer is often padded beyond its vocabulary."""
        if 0 <= token < len(self._bounds) - 1:
            return self._blob[self._bounds[token] : self._bounds[token + 1]]
        return b""

    def bytes_of(self, token: int) -> bytes:
        """What the token adds to a text: nothing if it is a control mark."""
        return b"" if token in self._special else self.raw_of(token)

    def text_of(self, token: int) -> str | None:
        """`bytes_of` as text; `None` if they are not whole characters."""
        try:
            return self._texts[token]
        except KeyError:
            pass
        try:
            text = self.bytes_of(token).decode()
        except UnicodeDecodeError:
            text = None
        if len(self._texts) < _MAX_CACHED_TEXTS:
            self._texts[token] = text
        return text
