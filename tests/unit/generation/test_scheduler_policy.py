"""The policy, as plain calls."""

from collections.abc import Sequence
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from refloat.generation.scheduler import Assignment, Pace, Room, Waiting, decide, longest
from refloat.kv.blocks import BlockLedger, blocks_for
from refloat.kv.forecast import Load

PACE = Pace(look_ahead=2, step_tokens=100)


def room(
    worker_id: int = 1, *, slots: int = 8, total: int = 10, loads: Sequence[Load] = (), **more: Any
) -> Room:
    """Blocks of ten tokens; who is there already has `loads`."""
    ledger = BlockLedger(total, 10)
    for number, load in enumerate(loads):
        ledger.enter(("there", number), load.tokens, limit=load.tokens + load.left)
    return Room(worker_id, slots, ledger, lambda: list(loads), **more)


def waiting(*lengths: int, tokens: int = 10, **more: Any) -> list[Waiting]:
    """Each with its tokens at its longest, which is what is expected of it."""
    return [
        Waiting(generation, min(tokens, most), most - min(tokens, most), most, **more)
        for generation, most in enumerate(lengths)
    ]


def sent(assignments: list[Assignment]) -> list[int]:
    return [assignment.generation for assignment in assignments]


def test_decide_head_that_does_not_fit_blocks_all_behind_it() -> None:
    assert sent(decide(waiting(60, 80, 5, 5), [room()], PACE)) == [0]


def test_decide_counts_what_it_has_given_already() -> None:
    assert sent(decide(waiting(40, 40, 40, 5), [room()], PACE)) == [0, 1]
    assert sent(decide(waiting(10, 10, 10), [room(slots=2)], PACE)) == [0, 1]


def test_decide_lets_in_who_grows_into_what_another_gives_back() -> None:
    nearly_through = [Load(60, 5)]
    assert sent(decide(waiting(50), [room(loads=nearly_through)], PACE)) == [0]
    far_from_it = [Load(60, 40)]
    assert sent(decide(waiting(50), [room(loads=far_from_it)], PACE)) == []


def test_decide_lets_nobody_in_whose_first_steps_would_not_fit() -> None:
    full = room(loads=[Load(91, 1)])
    assert decide([Waiting(0, 1, 1, 2)], [full], PACE) == []
    last_block = room(loads=[Load(80, 1)], steps=3)
    assert sent(decide([Waiting(0, 7, 3, 10)], [last_block], PACE)) == [0]
    assert sent(decide([Waiting(0, 8, 3, 11)], [last_block], PACE)) == []


def test_decide_without_resuming_keeps_blocks_for_the_end() -> None:
    short_expected = [Waiting(number, 10, 5, 60) for number in range(2)]
    assert sent(decide(short_expected, [room()], PACE)) == [0, 1]
    assert sent(decide(short_expected, [room(is_whole=True)], PACE)) == [0]


def test_decide_without_blocks_counts_slots_alone() -> None:
    blockless = Room(1, 1, None)
    assert sent(decide(waiting(10**9, 1), [blockless], PACE)) == [0]


def test_decide_sends_two_long_prompts_ahead_and_many_short_ones() -> None:
    long = waiting(100, 100, 100, tokens=90)
    assert sent(decide(long, [room(total=99)], PACE)) == [0, 1]
    assert sent(decide(long, [room(total=99)], None)) == [0, 1, 2]
    assert sent(decide(waiting(*[10] * 8), [room()], PACE)) == list(range(8))
    busy = room(unstarted=2, unstarted_tokens=95)
    assert decide(waiting(10), [busy], PACE) == []


def test_decide_prefers_the_emptier_worker() -> None:
    rooms = [room(1, total=6), room(2, total=9)]
    expected = [Assignment(0, 2), Assignment(1, 2), Assignment(2, 1)]
    assert decide(waiting(20, 70, 20), rooms, PACE) == expected
    assert decide(waiting(20, 20), [room(1, total=3, slots=0), room(2, total=2)], PACE) == [
        Assignment(0, 2)
    ]


def test_decide_same_beginning_waits_until_it_is_computed_and_is_then_shared() -> None:
    ledger = BlockLedger(30, 10, is_sharing=True)
    place = Room(1, 8, ledger)
    hashes = [1, 2, 3, 4, 5, 6]
    twins = [Waiting(number, 61, 60, 200, {10: hashes}.__getitem__) for number in range(3)]
    assert sent(decide(twins, [place], PACE)) == [0]
    ledger.enter("first", 61, limit=200, hashes=hashes)
    place = place._replace(loads=lambda: [Load(61 - 10 * ledger.common_of("first"), 60)])
    assert sent(decide(twins[1:], [place], PACE)) == []
    ledger.grow("first", [1])
    assert sent(decide(twins[1:], [place], None)) == [1], "nobody has seen this engine share"
    ledger.is_proven = True
    assert sent(decide(twins[1:], [place], None)) == [1, 2]


def test_longest_of_a_hybrid_has_head_room_but_never_more_than_there_is() -> None:
    hybrid = room(head_room=1)
    assert longest(50, hybrid) == 51
    assert longest(100, hybrid) == 100
    assert longest(101, hybrid) is None


@given(
    st.lists(st.integers(2, 120), max_size=12),
    st.lists(st.tuples(st.integers(0, 4), st.integers(1, 10)), max_size=3),
)
def test_decide_gives_a_beginning_of_the_line_that_fits(
    lengths: list[int], spare: list[tuple[int, int]]
) -> None:
    rooms = [room(index, slots=slots, total=blocks) for index, (slots, blocks) in enumerate(spare)]
    given_out = decide(waiting(*lengths), rooms, PACE)
    assert sent(given_out) == list(range(len(given_out)))
    for place, (slots, blocks) in zip(rooms, spare, strict=True):
        mine = [a.generation for a in given_out if a.worker_id == place.worker_id]
        assert len(mine) <= slots
        assert sum(blocks_for(min(10, lengths[item]), 10) for item in mine) <= blocks
