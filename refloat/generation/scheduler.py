"""Who goes to which worker now. Pure policy: no clock, no I/O, nothing is changed here.

Strictly first-come: the first that fits nowhere waits, and nothing behind it overtakes it, so
nobody starves. A worker gets no more than its slots and its blocks hold, and little beyond what it
can begin at once: what waits here can still be cancelled for nothing.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from refloat.kv.blocks import blocks_for


class Waiting(NamedTuple):
    """One generation that wants to run."""

    generation: int
    tokens: int
    """It will hold at its longest."""
    prefill: int
    """Tokens to compute before its next token comes."""


class Room(NamedTuple):
    """What one ready worker has left."""

    worker_id: int
    slots: int
    """Sequences it can still take."""
    blocks: int | None
    """KV blocks not promised; `None`: an engine whose blocks are not counted."""
    total_blocks: int = 0
    block_size: int = 1
    head_room: int = 0
    """Tokens beyond a generation's own that this engine may compute (hybrid engines)."""
    unstarted: int = 0
    """Sequences it has that have brought no token yet."""
    unstarted_tokens: int = 0
    """Prompt tokens of those."""


class Pace(NamedTuple):
    """How far ahead of a worker's steps work is sent to it."""

    look_ahead: int
    step_tokens: int


class Assignment(NamedTuple):
    """Send this generation to this worker."""

    generation: int
    worker_id: int


def blocks_wanted(tokens: int, room: Room) -> int | None:
    """Blocks to promise for `tokens` tokens; `None`: more than this cache has, so it never fits.

    Head-room is cut at the cache's size: the last token of a sequence has no entry in the cache, so
    a generation that just fits still does.
    """
    if room.blocks is None:
        return 0
    if blocks_for(tokens, room.block_size) > room.total_blocks:
        return None
    return min(blocks_for(tokens + room.head_room, room.block_size), room.total_blocks)


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
        left[best] = _without(item, left[best])
        assignments.append(Assignment(item.generation, left[best].worker_id))
    return assignments


def _best(item: Waiting, rooms: Sequence[Room], pace: Pace | None) -> int | None:
    """Position of the room with most blocks, then most slots, of those that can take the item."""
    fitting = [index for index, room in enumerate(rooms) if _fits(item, room, pace)]
    return max(fitting, key=lambda index: _size(rooms[index]), default=None)


def _size(room: Room) -> tuple[int, int]:
    return (room.blocks or 0, room.slots)


def _fits(item: Waiting, room: Room, pace: Pace | None) -> bool:
    wanted = blocks_wanted(item.tokens, room)
    if room.slots < 1 or wanted is None or (room.blocks is not None and wanted > room.blocks):
        return False
    if pace is None or room.unstarted < pace.look_ahead:
        return True
    return room.unstarted_tokens + item.prefill <= pace.step_tokens


def _without(item: Waiting, room: Room) -> Room:
    wanted = blocks_wanted(item.tokens, room) or 0
    return room._replace(
        slots=room.slots - 1,
        blocks=None if room.blocks is None else room.blocks - wanted,
        unstarted=room.unstarted + 1,
        unstarted_tokens=room.unstarted_tokens + item.prefill,
    )
