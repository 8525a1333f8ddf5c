"""The block arithmetic, as plain calls."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refloat.kv.blocks import BlockLedger, blocks_for
from refloat.kv.forecast import Load, peak_blocks
from refloat.kv.prefix import chain

PROMPT = list(range(9))
HASHES = chain(PROMPT, 4)
SOME = [7, 7, 7, 7, 7, 7, 7, 7]


def sharing(total: int = 20, *keys: str) -> BlockLedger:
    """Of an engine with a prefix cache; these have PROMPT. Blocks of four tokens."""
    ledger = BlockLedger(total, 4, is_sharing=True)
    for key in keys:
        begin(ledger, key)
    return ledger


def begin(ledger: BlockLedger, key: str, *, first: int = 1) -> None:
    """One with PROMPT, which brings its first token."""
    ledger.enter(key, 9, limit=40, hashes=HASHES, tail=PROMPT[8:])
    if first:
        ledger.grow(key, [100])


def test_blocks_for_counts_the_last_one_begun() -> None:
    assert [blocks_for(tokens, 4) for tokens in (0, 1, 4, 5, 8)] == [0, 1, 1, 2, 2]


@pytest.mark.parametrize(("total", "size"), [(0, 4), (4, 0), (-1, 4)])
def test_ledger_of_nothing_is_an_error(total: int, size: int) -> None:
    with pytest.raises(ValueError, match="holds nothing"):
        BlockLedger(total, size)


def test_sequence_grows_by_blocks_and_never_beyond_its_limit() -> None:
    ledger = BlockLedger(5, 4)
    ledger.enter("a", 4, limit=9)
    assert ledger.used == 1
    ledger.grow("a", [1])
    assert ledger.used == 2
    ledger.grow("a", [1] * 3)
    assert ledger.used == 2
    ledger.grow("a", [1] * 10)
    assert ledger.used == 3
    with pytest.raises(ValueError, match="holds blocks already"):
        ledger.enter("a", 1, limit=1)
    ledger.release("b")
    ledger.release("a")
    ledger.release("a")
    assert ledger.used == 0


def test_one_who_leaves_holds_its_blocks_and_is_not_needed_for() -> None:
    ledger = BlockLedger(4, 4)
    ledger.enter("old", 8, limit=16)
    ledger.enter("young", 8, limit=16)
    assert ledger.need(0) == ledger.used == 4
    assert ledger.need(1) == 6
    ledger.leave("young")
    ledger.leave("young")
    assert (ledger.used, ledger.need(1), ledger.leaving) == (4, 3, 1)
    assert not ledger.has_room_for(1, 1, limit=2)
    ledger.release("young")
    assert (ledger.used, ledger.leaving) == (2, 0)
    assert ledger.has_room_for(1, 1, limit=2)
    assert not ledger.has_room_for(1, 1, limit=2, beside=1)


def test_empty_cache_takes_whatever_is_not_longer_than_it() -> None:
    ledger = BlockLedger(4, 4)
    assert ledger.has_room_for(16, 3, limit=16)
    assert not ledger.has_room_for(16, 3, limit=17)
    assert not ledger.has_room_for(16, 3, limit=16, beside=1)


def test_same_beginnings_are_counted_in_full_until_the_engine_says_less() -> None:
    ledger = sharing(20, "a", "b", "c")
    assert ledger.observe(-1)
    assert (ledger.used, ledger.is_proven, ledger.known(HASHES)) == (9, False, 0)
    assert ledger.observe(5)
    assert (ledger.used, ledger.is_proven, ledger.known(HASHES)) == (6, True, 2)
    assert (ledger.common, ledger.common_of("a")) == (2, 2)
    ledger.grow("a", SOME[:4])
    begin(ledger, "d", first=0)
    assert ledger.used == 6 + 1 + 3, "a newcomer counts in full until it was in a step"
    assert ledger.observe(6)
    assert ledger.used == 6 + 3 + 1
    ledger.grow("d", [100])
    assert ledger.observe(7)
    assert ledger.used == 8
    for key in "abcd":
        ledger.release(key)
    assert (ledger.used, ledger.common) == (0, 0)


def test_steps_in_which_a_sequence_was_not_are_no_proof() -> None:
    ledger = sharing(20, "a")
    begin(ledger, "b", first=0)
    assert ledger.observe(3)
    assert not ledger.is_proven
    ledger.grow("b", [100])
    ledger.leave("b")
    assert ledger.observe(4)
    assert not ledger.is_proven


def test_engine_that_has_more_than_it_can_have_is_not_believed_again() -> None:
    ledger = sharing(20, "a", "b", "c")
    assert ledger.observe(5)
    assert not ledger.observe(7)
    assert (ledger.used, ledger.known(HASHES), ledger.awaits(HASHES)) == (9, 0, False)
    assert ledger.observe(5)
    ledger.grow("a", SOME)
    assert ledger.used == 11
    for key in "abc":
        ledger.release(key)
    assert ledger.used == 0


def test_one_who_goes_takes_along_only_what_nobody_else_has() -> None:
    ledger = sharing(20, "a", "b", "c")
    for key in "abc":
        ledger.grow(key, SOME[:7])
    assert ledger.used == 15
    assert ledger.observe(8)
    assert ledger.used == 9
    ledger.leave("c")
    # all three have said the same, so a and b have c's blocks, but for the one not yet full
    assert ledger.need(0) == 8
    ledger.release("c")
    assert ledger.used == 8
    ledger.grow("b", SOME[:4])
    assert ledger.used == 9
    ledger.leave("b")
    assert ledger.need(0) == 5
    ledger.leave("a")
    assert ledger.need(0) == 0


def test_next_block_that_is_being_computed_is_waited_for() -> None:
    ledger = sharing()
    ledger.enter("short", 5, limit=9, hashes=HASHES[:1], tail=PROMPT[4:5])
    assert ledger.awaits(HASHES)
    ledger.grow("short", [100])
    assert not ledger.awaits(HASHES)
    assert ledger.awaits(HASHES, beside=HASHES)
    begin(ledger, "long", first=0)
    assert ledger.awaits(HASHES)
    assert not ledger.awaits(HASHES[:1])
    ledger.grow("long", [100])
    assert not ledger.awaits(HASHES)


def test_newcomer_whose_last_block_is_full_and_shared_waits_for_a_block_for_each_holder() -> None:
    ledger = sharing(11, "a", "b", "c")
    assert ledger.used == 9
    assert not ledger.has_room_for(8, 1, limit=9, hashes=HASHES), "2 + 1 of its own, 3 asked for"
    ledger.release("c")
    assert ledger.has_room_for(8, 1, limit=9, hashes=HASHES)
    ledger.enter("d", 8, limit=16, hashes=HASHES)
    assert ledger.need(1) == 6 + 3 + 3
    ledger.grow("d", [1])
    assert ledger.need(1) == 6 + 3 + 3
    ledger.grow("d", [1])
    assert ledger.need(1) == 6 + 3


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(1, 30)), max_size=60))
def test_need_is_what_the_entries_add_up_to(moves: list[tuple[int, int]]) -> None:
    ledger = BlockLedger(8, 4)
    held: dict[int, tuple[int, int]] = {}
    for key, count in moves:
        if key in held and count > 20:
            ledger.release(key)
            del held[key]
        elif key in held:
            tokens, limit = held[key]
            held[key] = tokens + count, limit
            ledger.grow(key, [1] * count)
        else:
            held[key] = count, count + 12
            ledger.enter(key, count, limit=count + 12)
        assert ledger.used == sum(blocks_for(min(t, m, 32), 4) for t, m in held.values())
        exact = sum(blocks_for(min(t + 3, m, 32), 4) for t, m in held.values())
        assert ledger.need(3) >= exact
        assert ledger.need(3) == exact or ledger.need(3) <= ledger.total


LOADS = st.lists(st.tuples(st.integers(1, 40), st.integers(0, 40)), max_size=8)


@given(LOADS)
def test_peak_is_the_highest_of_all_steps(pairs: list[tuple[int, int]]) -> None:
    loads = [Load(*pair) for pair in pairs]
    steps = range(max((load.left for load in loads), default=0) + 1)
    held = [
        sum(blocks_for(load.tokens + step, 4) for load in loads if load.left >= step)
        for step in steps
    ]
    assert peak_blocks(loads, 4) == max(held, default=0)
