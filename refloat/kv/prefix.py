"""Full KV blocks that several sequences hold at once, mirrored by the hash of all that leads to them.

An engine with a prefix cache keeps a block once however many sequences hold it, but only if it was
computed when they came: identical prompts that are added together compute, and keep, one copy each.
So a block can be shared from the moment its first owner's prompt is through, and one of which there
are two copies is shared with nobody, since nobody can tell with which.
"""

from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Sequence

_ID_BYTES = 4


def chain(ids: Sequence[int], block_size: int, known: Sequence[int] = ()) -> list[int]:
    """Hashes of the full blocks of `ids`; `known` are those of its first blocks, if computed.

    Each is of a block's ids and its predecessor's hash. They are Python's own, keyed at random for
    each process: nobody outside can make two beginnings collide.
    """
    hashes = list(known)
    parent = hashes[-1] if hashes else 0
    size = block_size * _ID_BYTES
    first = len(hashes) * block_size
    packed = array("i", ids[first : len(ids) - len(ids) % block_size]).tobytes()
    for start in range(0, len(packed), size):
        parent = hash((parent, packed[start : start + size]))
        hashes.append(parent)
    return hashes


class SharedBlocks:
    """How many sequences hold each block, and how many of those have computed it."""

    def __init__(self) -> None:
        self._holders: dict[int, int] = {}
        self._computed: dict[int, int] = {}
        self._copies: dict[int, int] = {}
        """Sequences that keep a copy of their own of a block that is held by others as well."""
        self.common = 0
        """Blocks that at least two hold."""

    def __len__(self) -> int:
        """Different blocks that are held."""
        return len(self._holders)

    def holders(self, block: int) -> int:
        """Sequences that hold it."""
        return self._holders.get(block, 0)

    def known(self, hashes: Sequence[int]) -> int:
        """How many of the first ones a newcomer would share."""
        for count, block in enumerate(hashes):
            if block not in self._computed or block in self._copies:
                return count
        return len(hashes)

    def hold(self, hashes: Sequence[int]) -> None:
        """A newcomer shares these."""
        for block in hashes:
            before = self._holders.get(block, 0)
            self._holders[block] = before + 1
            self.common += before == 1

    def publish(self, hashes: Sequence[int], held: int) -> int:
        """A sequence that holds the first `held` of its blocks has computed them all: the rest can be
        shared from now on. How many it holds now; of the next one, if any, it has a copy."""
        for block in hashes[:held]:
            self._computed[block] = self._computed.get(block, 0) + 1
        for count in range(held, len(hashes)):
            block = hashes[count]
            if block in self._holders or block in self._copies:
                self._copies[block] = self._copies.get(block, 0) + 1
                return count
            self._holders[block] = self._computed[block] = 1
        return len(hashes)

    def withdraw(self, hashes: Sequence[int], held: int, *, is_computed: bool) -> bool:
        """A sequence that holds the first `held` of its blocks is gone. Whether somebody holds one
        of them now that nobody is known to have computed."""
        is_doubtful = False
        for block in hashes[:held]:
            left = _less(self._holders, block)
            self.common -= left == 1
            if is_computed and not _less(self._computed, block) and left:
                is_doubtful = True
        if is_computed and held < len(hashes):
            _less(self._copies, hashes[held])
        return is_doubtful

    def common_of(self, hashes: Sequence[int]) -> int:
        """How many of the first ones are held by others, too: who holds a block holds all before."""
        return bisect_left(hashes, True, key=lambda block: self._holders.get(block, 0) < 2)

    def freed_by(self, leaving: Iterable[Sequence[int]]) -> int:
        """Blocks that nobody holds any more when holders of these are gone."""
        gone: Counter[int] = Counter()
        for hashes in leaving:
            gone.update(hashes)
        return sum(self._holders.get(block, 0) == count for block, count in gone.items())

    def is_doubtful(self, hashes: Sequence[int]) -> bool:
        """Whether one of them is held, but by nobody who is known to have computed it."""
        return any(block not in self._computed for block in hashes)


def _less(counts: dict[int, int], block: int) -> int:
    left = counts.get(block, 0) - 1
    if left > 0:
        counts[block] = left
    else:
        counts.pop(block, None)
    return max(left, 0)
