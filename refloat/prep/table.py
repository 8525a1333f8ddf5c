"""The bytes of every token, as prep found them: decoding by them, and their form on the wire. Pure."""

from collections.abc import Sequence
from typing import NamedTuple

from refloat.wire.messages import pack_ids
from refloat.wire.prep_messages import TokenTable


class TokenBytes(NamedTuple):
    """A vocabulary by its bytes. The text of ids is by definition what `decode` gives."""

    words: Sequence[bytes]
    """What each token adds to a text; for a control mark, its name."""
    special_ids: frozenset[int]
    strip_leading_space: bool = False
    exact: bool = True

    def joined(self, ids: Sequence[int], *, skip_special: bool = True) -> bytes:
        """The bytes of a text; ids outside the vocabulary have none."""
        words = self.words
        size = len(words)
        skip: frozenset[int] = self.special_ids if skip_special else frozenset()
        data = b"".join([words[i] for i in ids if 0 <= i < size and i not in skip])
        return data.removeprefix(b" ") if self.strip_leading_space else data

    def decode(self, ids: Sequence[int], *, skip_special: bool = True) -> str:
        """The text of ids; bytes that are no UTF-8 become U+FFFD."""
        return self.joined(ids, skip_special=skip_special).decode(errors="replace")

    def id_of(self, name: str) -> int | None:
        """The token that is spelt like this, if there is one."""
        try:
            return self.words.index(name.encode())
        except ValueError:
            return None

    def wire(self) -> TokenTable:
        """As the gateway gets it."""
        return TokenTable(
            blob=b"".join(self.words),
            lengths=pack_ids([len(word) for word in self.words]),
            special_ids=tuple(sorted(self.special_ids)),
            strip_leading_space=self.strip_leading_space,
            exact=self.exact,
        )
