"""Who goes to which worker now. Pure policy: no clock, no I/O, nothing is changed here.

Strictly in the order of the line (`queue.py`): the first that fits nowhere waits, and nothing behind
it overtakes it, so nobody starves. A worker gets no more than its slots and its blocks hold, and
little beyond what it can begin at once: what waits here can still be cancelled for nothing.

A generation fits if everybody there can go on for the next steps, and if the cache will never be
fuller than it is when all end where they are expected to (`forecast.py`). One whose beginning is just
being computed for another waits until it can share that.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from refloat.kv.blocks import BlockLedger, blocks_for, prefill_steps
from refloat.kv.forecast import Load, peak_blocks

_LEAST_BLOCKS = 2


class Waiting(NamedTuple):
    """One generation that wants to run."""

    generation: int
    tokens: int
    """It has now; all of them have to be computed before its next one comes."""
    left: int
    """Tokens that are expected to come."""
    most: int
    """Tokens it will hold at its longest."""
    hashes: Callable[[int], Sequence[int]] = lambda _: ()
    """Of its prompt's full blocks of this size."""


class Room(NamedTuple):
    """What one ready worker has left."""

    worker_id: int
    slots: int
    """Sequences it can still take."""
    ledger: BlockLedger | None
    """Who holds its blocks; only read here. `None`: an engine whose blocks are not counted."""
    loads: Callable[[], list[Load]] = list
    """Who is there to stay, with what is expected of each."""
    is_whole: bool = False
    """Its engine cannot go on with a generation that was stopped: blocks are kept for the end."""
    head_room: int = 0
    """Tokens beyond a generation's own that this engine may compute (hybrid engines)."""
    steps: int = 1
    """Steps for which everybody has to have blocks."""
    linger: int = 0
    """Steps for which somebody's blocks are missed after the end that was expected."""
    step_tokens: int = 0
    """Tokens that a step computes, if nobody can be stopped in the midst of his prompt; else 0."""
    running: int = 0
    unstarted: int = 0
    """Sequences it has that have brought no token yet."""
    unstarted_tokens: int = 0
    """Prompt tokens of those."""
    added: tuple[Load, ...] = ()
    """Assigned in this decision."""
    added_blocks: int = 0
    begun: frozenset[int] = frozenset()
    """Hashes of the blocks of those."""


class Pace(NamedTuple):
    """How far ahead of a worker's steps work is sent to it."""

    look_ahead: int
    step_tokens: int


class Assignment(NamedTuple):
    """Send this generation to this worker."""

    generation: int
    worker_id: int


def longest(most: int, room: Room) -> int | None:
    """Tokens that one of `most` tokens may come to on this engine; `None`: more than its cache has,
    so it never fits.

    Head-room is cut at the cache's size: the last token of a sequence has no entry in the cache, so
    a generation that just fits still does.
    """
    if room.ledger is None:
        return most + room.head_room
    if blocks_for(most, room.ledger.block_size) > room.ledger.total:
        return None
    return min(most + room.head_room, room.ledger.capacity_tokens)


def load(tokens: int, shared: int, left: int, most: int, ledger: BlockLedger) -> Load:
    """What to expect of a generation of so many tokens, of which it holds `shared` blocks in common.
    Nobody runs who could not go on for some blocks: else it would be stopped again at once."""
    size = ledger.block_size
    left = max(left, min(_LEAST_BLOCKS * size, most - tokens))
    return Load(tokens - shared * size, left, most - shared * size)


def decide(
    waiting: Iterable[Waiting], rooms: Sequence[Room], pace: Pace | None
) -> list[Assignment]:
    """Whom to send where, in order. Without `pace`: all that could run at once, however it is fed."""
    left = list(rooms)
    assignments: list[Assignment] = []
    for item in waiting:
        best = _best(item, left, pace)
        if best is None:
            break
        left[best] = _with(item, left[best])
        assignments.append(Assignment(item.generation, left[best].worker_id))
    return assignments


def _best(item: Waiting, rooms: Sequence[Room], pace: Pace | None) -> int | None:
    """Position of the room with most blocks, then most slots, of those that can take the item."""
    fitting = [index for index, room in enumerate(rooms) if _fits(item, room, pace)]
    return max(fitting, key=lambda index: _size(rooms[index]), default=None)


def _size(room: Room) -> tuple[int, int]:
    ledger = room.ledger
    free = ledger.total - ledger.used - room.added_blocks if ledger is not None else 0
    return (free, room.slots)


def _fits(item: Waiting, room: Room, pace: Pace | None) -> bool:
    if room.slots < 1:
        return False
    if pace is not None and not _is_in_pace(item, room, pace):
        return False
    ledger = room.ledger
    if ledger is None:
        return True
    limit = longest(item.most, room)
    if limit is None:
        return False
    hashes = item.hashes(ledger.block_size) if ledger.is_sharing else ()
    if pace is not None and ledger.awaits(hashes, room.begun):
        return False
    if not ledger.has_room_for(
        limit if room.is_whole else item.tokens,
        room.steps + _prefill_steps(item, room),
        limit=limit,
        hashes=hashes,
        beside=room.added_blocks,
    ):
        return False
    return room.is_whole or _will_fit(item, hashes, ledger, room)


def _prefill_steps(item: Waiting, room: Room) -> int:
    """Steps until its prompt is through, and it could be stopped."""
    if not room.step_tokens:
        return 0
    return prefill_steps(room.unstarted_tokens + item.tokens, room.step_tokens, room.running)


def _is_in_pace(item: Waiting, room: Room, pace: Pace) -> bool:
    if room.unstarted < pace.look_ahead:
        return True
    return room.unstarted_tokens + item.tokens <= pace.step_tokens


def _will_fit(item: Waiting, hashes: Sequence[int], ledger: BlockLedger, room: Room) -> bool:
    """Whether the cache is never too full, as far as can be foreseen."""
    if not len(ledger) and not room.added:
        return True
    shared = ledger.known(hashes)
    mine = load(item.tokens, shared, item.left + room.linger, item.most, ledger)
    loads = [*room.loads(), *room.added, mine]
    return ledger.common + peak_blocks(loads, ledger.block_size) <= ledger.total


def _with(item: Waiting, room: Room) -> Room:
    """The room when it has the item as well."""
    room = room._replace(
        slots=room.slots - 1,
        unstarted=room.unstarted + 1,
        unstarted_tokens=room.unstarted_tokens + item.tokens,
    )
    ledger = room.ledger
    limit = longest(item.most, room)
    if ledger is None or limit is None:
        return room
    hashes = item.hashes(ledger.block_size) if ledger.is_sharing else ()
    shared = ledger.known(hashes)
    tokens = limit if room.is_whole else min(item.tokens + room.steps, max(item.tokens, limit))
    return room._replace(
        added=(*room.added, load(item.tokens, shared, item.left + room.linger, item.most, ledger)),
        added_blocks=room.added_blocks + blocks_for(tokens, ledger.block_size),
        begun=room.begun.union(hashes),
    )
