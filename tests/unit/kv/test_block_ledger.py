"""The block arithmetic, as plain calls."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refloat.kv.blocks import BlockLedger, blocks_for
from refloat.kv.forecast import Load, peak_blocks
from refloat.kv.prefix import chain


def proven(total: int = 20) -> BlockLedger:
    """Of an engine that was seen to share; blocks of four tokens."""
    ledger = BlockLedger(total, 4, is_sharing=True)
    ledger.is_proven = True
    return ledger


PROMPT = list(range(9))
HASHES = chain(PROMPT, 4)


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
    ledger.grow("a", 1)
    assert ledger.used == 2
    ledger.grow("a", 3)
    assert ledger.used == 2
    ledger.grow("a", 10)
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


def test_identical_prompts_share_once_the_first_is_computed() -> None:
    ledger = proven()
    ledger.enter("a", 9, limit=20, hashes=HASHES)
    assert ledger.awaits(HASHES)
    assert ledger.shared(9, HASHES) == 0
    ledger.computed("a")
    assert not ledger.awaits(HASHES)
    assert ledger.shared(9, HASHES) == 2
    assert ledger.shared(8, HASHES) == 1, "the last block is never shared"
    ledger.enter("b", 9, limit=20, hashes=HASHES)
    assert ledger.used == 4
    assert (ledger.common, ledger.own_tokens("a"), ledger.own_tokens("b")) == (2, 1, 1)
    ledger.computed("b")
    ledger.release("a")
    assert ledger.used == 3
    assert ledger.own_tokens("b") == 9
    ledger.release("b")
    assert ledger.used == 0


def test_cold_twins_are_counted_twice_and_shared_with_nobody() -> None:
    ledger = proven()
    for key in "ab":
        ledger.enter(key, 9, limit=20, hashes=HASHES)
    for key in "ab":
        ledger.computed(key)
    assert ledger.used == 6
    assert ledger.shared(9, HASHES) == 0, "with which of the two?"
    ledger.release("b")
    assert ledger.shared(9, HASHES) == 2
    ledger.release("a")
    assert ledger.used == 0


def test_shared_block_whose_computer_ended_before_the_newcomer_began_is_counted_twice() -> None:
    ledger = proven()
    ledger.enter("a", 9, limit=20, hashes=HASHES)
    ledger.computed("a")
    for key in "bc":
        ledger.enter(key, 9, limit=20, hashes=HASHES)
    assert ledger.used == 5
    ledger.release("a")
    assert ledger.used == 6
    for key in "bc":
        ledger.computed(key)
        ledger.release(key)
    assert ledger.used == 0


def test_leaving_frees_what_nobody_else_holds() -> None:
    ledger = proven(6)
    for key in "ab":
        ledger.enter(key, 9, limit=24, hashes=HASHES)
        ledger.computed(key)
    ledger.enter("c", 8, limit=24)
    assert ledger.used == 6
    ledger.leave("b")
    assert ledger.need(0) == 5
    ledger.leave("a")
    assert ledger.need(0) == 2


def test_newcomer_whose_last_block_is_full_and_shared_waits_for_a_block_for_each_holder() -> None:
    ledger = proven(9)
    for key in "abc":
        ledger.enter(key, 9, limit=20, hashes=HASHES)
        ledger.computed(key)
    assert ledger.used == 5
    assert not ledger.has_room_for(8, 1, limit=9, hashes=HASHES), "1 + 1 of its own, 3 asked for"
    ledger.release("c")
    assert ledger.has_room_for(8, 1, limit=9, hashes=HASHES)


def test_sharing_is_counted_only_once_it_was_seen_and_never_again_after_the_contrary() -> None:
    ledger = BlockLedger(20, 4, is_sharing=True)
    for key in "ab":
        ledger.enter(key, 9, limit=20, hashes=HASHES)
        ledger.computed(key)
    assert ledger.used == 6
    assert ledger.observe(-1)
    assert not ledger.is_proven
    assert ledger.observe(4)
    assert ledger.is_proven
    assert ledger.used == 4
    assert not ledger.observe(5)
    assert (ledger.used, ledger.is_sharing, ledger.shared(9, HASHES)) == (6, False, 0)
    assert ledger.observe(6)
    for key in "ab":
        ledger.release(key)
    assert ledger.used == 0


def test_sharing_is_not_proven_by_a_step_that_a_newcomer_was_not_in() -> None:
    ledger = BlockLedger(20, 4, is_sharing=True)
    ledger.enter("a", 9, limit=20, hashes=HASHES)
    ledger.computed("a")
    ledger.enter("b", 9, limit=20, hashes=HASHES)
    assert ledger.observe(3)
    assert not ledger.is_proven


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
            ledger.grow(key, count)
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
