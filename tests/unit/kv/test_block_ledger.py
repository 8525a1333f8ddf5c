import pytest
from hypothesis import given
from hypothesis import strategies as st

from refloat.kv.blocks import BlockLedger, blocks_for


def test_blocks_for_counts_the_last_one_begun() -> None:
    assert [blocks_for(tokens, 4) for tokens in (0, 1, 4, 5, 8)] == [0, 1, 1, 2, 2]


@pytest.mark.parametrize(("total", "size"), [(0, 4), (4, 0), (-1, 4)])
def test_ledger_of_nothing_is_an_error(total: int, size: int) -> None:
    with pytest.raises(ValueError, match="holds nothing"):
        BlockLedger(total, size)


def test_reserve_beyond_what_is_free_is_an_error_and_changes_nothing() -> None:
    ledger = BlockLedger(3, 4)
    ledger.reserve("a", 8)
    assert (ledger.free, ledger.used, ledger.capacity_tokens) == (1, 2, 12)
    assert ledger.fits(4)
    assert not ledger.fits(5)
    with pytest.raises(ValueError, match="wanted"):
        ledger.reserve("b", 5)
    with pytest.raises(ValueError, match="holds blocks already"):
        ledger.reserve("a", 1)
    assert ledger.used == 2


def test_release_of_what_is_unknown_or_released_does_nothing() -> None:
    ledger = BlockLedger(3, 4)
    ledger.reserve("a", 8)
    ledger.release("b")
    ledger.release("a")
    ledger.release("a")
    assert ledger.free == 3


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(1, 40)), max_size=60))
def test_ledger_never_promises_more_than_there_is(moves: list[tuple[int, int]]) -> None:
    ledger = BlockLedger(8, 4)
    held: dict[int, int] = {}
    for key, tokens in moves:
        if key in held:
            ledger.release(key)
            del held[key]
        elif ledger.fits(tokens):
            ledger.reserve(key, tokens)
            held[key] = blocks_for(tokens, 4)
        assert ledger.used == sum(held.values()) <= ledger.total
