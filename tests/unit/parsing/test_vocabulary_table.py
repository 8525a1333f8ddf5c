"""The token table as the gateway looks it up."""

import pytest

from refloat.parsing.vocabulary import Vocabulary
from refloat.wire.messages import pack_ids
from refloat.wire.prep_messages import TokenTable


def table(words: list[bytes], *special: int, strip: bool = False, exact: bool = True) -> TokenTable:
    return TokenTable(
        blob=b"".join(words),
        lengths=pack_ids([len(word) for word in words]),
        special_ids=special,
        strip_leading_space=strip,
        exact=exact,
    )


def test_vocabulary_ids_give_their_own_bytes() -> None:
    words = [b"a", b"", b"\xe4\xbd", "ß".encode()]
    vocabulary = Vocabulary.from_table(table(words))
    assert [vocabulary.bytes_of(token) for token in range(4)] == words
    assert len(vocabulary) == 4


def test_vocabulary_special_token_has_no_text_but_a_name() -> None:
    vocabulary = Vocabulary.from_table(table([b"a", b"<|im_end|>"], 1))
    assert vocabulary.bytes_of(1) == b""
    assert vocabulary.text_of(1) == ""
    assert vocabulary.raw_of(1) == b"<|im_end|>"
    assert vocabulary.is_special(1)
    assert not vocabulary.is_special(0)


@pytest.mark.parametrize("token", [-1, 2, 10**9])
def test_vocabulary_id_outside_the_table_has_no_text(token: int) -> None:
    vocabulary = Vocabulary.from_table(table([b"a", b"b"]))
    assert vocabulary.bytes_of(token) == b""
    assert vocabulary.text_of(token) == ""


def test_vocabulary_part_of_a_character_is_no_text() -> None:
    vocabulary = Vocabulary.from_table(table([b"\xe4\xbd", "é".encode()]))
    assert vocabulary.text_of(0) is None
    assert vocabulary.text_of(1) == "é"
    assert vocabulary.text_of(1) == "é"


def test_vocabulary_flags_come_from_the_table() -> None:
    vocabulary = Vocabulary.from_table(table([b"a"], strip=True, exact=False))
    assert vocabulary.strip_leading_space
    assert not vocabulary.exact


@pytest.mark.parametrize("lengths", [[1, 1], [4], [-1, 4]])
def test_vocabulary_lengths_that_do_not_fit_are_refused(lengths: list[int]) -> None:
    broken = TokenTable(blob=b"abc", lengths=pack_ids(lengths), special_ids=())
    with pytest.raises(ValueError, match="token table"):
        Vocabulary.from_table(broken)


def test_vocabulary_empty_table_is_legal() -> None:
    assert len(Vocabulary.from_table(table([]))) == 0
