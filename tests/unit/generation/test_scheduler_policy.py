"""The policy, as plain calls."""

from hypothesis import given
from hypothesis import strategies as st

from refloat.generation.scheduler import Assignment, Pace, Room, Waiting, blocks_wanted, decide

PACE = Pace(look_ahead=2, step_tokens=100)


def room(worker_id: int = 1, slots: int = 8, blocks: int | None = 10, **more: int) -> Room:
    return Room(worker_id, slots, blocks, **({"total_blocks": 10, "block_size": 10} | more))


def waiting(*tokens: int, prefill: int = 10) -> list[Waiting]:
    return [Waiting(generation, count, prefill) for generation, count in enumerate(tokens)]


def sent(assignments: list[Assignment]) -> list[int]:
    return [assignment.generation for assignment in assignments]


def test_decide_head_that_does_not_fit_blocks_all_behind_it() -> None:
    assert sent(decide(waiting(40, 70, 1, 1), [room()], PACE)) == [0]


def test_decide_counts_what_it_has_given_already() -> None:
    assert sent(decide(waiting(40, 40, 20, 1), [room()], PACE)) == [0, 1, 2]
    assert sent(decide(waiting(1, 1, 1), [room(slots=2)], PACE)) == [0, 1]


def test_decide_without_blocks_counts_slots_alone() -> None:
    assert sent(decide(waiting(10**9, 1), [room(blocks=None, slots=1)], PACE)) == [0]


def test_decide_sends_two_long_prompts_ahead_and_many_short_ones() -> None:
    long = waiting(1, 1, 1, prefill=90)
    assert sent(decide(long, [room()], PACE)) == [0, 1]
    assert sent(decide(long, [room()], None)) == [0, 1, 2]
    assert sent(decide(waiting(*[1] * 8), [room()], PACE)) == list(range(8))
    busy = room(unstarted=2, unstarted_tokens=95)
    assert decide(waiting(1), [busy], PACE) == []


def test_decide_prefers_the_emptier_worker() -> None:
    rooms = [room(1, blocks=3), room(2, blocks=9)]
    expected = [Assignment(0, 2), Assignment(1, 2), Assignment(2, 1)]
    assert decide(waiting(20, 70, 20), rooms, PACE) == expected
    assert decide(waiting(20, 20), [room(1, blocks=3, slots=0), room(2, blocks=2)], PACE) == [
        Assignment(0, 2)
    ]


def test_blocks_wanted_of_a_hybrid_has_head_room_but_never_more_than_there_is() -> None:
    hybrid = room(head_room=1)
    assert blocks_wanted(50, hybrid) == 6
    assert blocks_wanted(100, hybrid) == 10
    assert blocks_wanted(101, hybrid) is None


@given(
    st.lists(st.integers(1, 120), max_size=12),
    st.lists(st.tuples(st.integers(0, 4), st.integers(0, 10)), max_size=3),
)
def test_decide_gives_a_beginning_of_the_line_that_fits(
    tokens: list[int], spare: list[tuple[int, int]]
) -> None:
    rooms = [room(index, slots, blocks) for index, (slots, blocks) in enumerate(spare)]
    given_out = decide(waiting(*tokens), rooms, PACE)
    assert sent(given_out) == list(range(len(given_out)))
    for place in rooms:
        mine = [a.generation for a in given_out if a.worker_id == place.worker_id]
        assert len(mine) <= place.slots
        assert sum(-(-tokens[generation] // 10) for generation in mine) <= (place.blocks or 0)
