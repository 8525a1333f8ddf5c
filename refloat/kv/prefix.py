"""Full KV blocks with which several sequences begin, by the hash of all that leads to them. Pure.

An engine with a prefix cache keeps a block once for all that have it, but only if it was computed when
they came: identical prompts that are added together compute, and keep, one copy each. So a newcomer
can count on a block from the moment its first owner's prompt is through. And nobody leaves such an
engine in the midst of a prompt: a block that is computed in part would be kept as if it were whole.
"""

from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Sequence

_ID_BYTES = 4


def chain(ids: Sequence[int], block_size: int, *, parent: int = 0) -> list[int]:
    """Hashes of the full blocks of `ids`, which begin where the block with the hash `parent` ends.

    Each is of a block's ids and its predecessor's hash. They are Python's own, keyed at random for
    each process: nobody outside can make two beginnings collide.
    """
    hashes: list[int] = []
    size = block_size * _ID_BYTES
    packed = array("i", ids[: len(ids) - len(ids) % block_size]).tobytes()
    for start in range(0, len(packed), size):
        parent = hash((parent, packed[start : start + size]))
        hashes.append(parent)
    return hashes


class SharedBlocks:
    """How many sequences have each block, and how many of those have computed it."""

    def __init__(self) -> None:
        self._owners: dict[int, int] = {}
        self._computed: dict[int, int] = {}
        self.common = 0
        """Blocks that at least two have."""

    def owners(self, block: int) -> int:
        """Sequences that have it."""
        return self._owners.get(block, 0)

    def known(self, hashes: Sequence[int]) -> int:
        """How many of the first ones somebody has computed: who has a block has all before it."""
        return bisect_left(hashes, True, key=lambda block: block not in self._computed)

    def common_of(self, hashes: Sequence[int]) -> int:
        """How many of the first ones others have as well, besides the one who asks."""
        return bisect_left(hashes, True, key=lambda block: self.owners(block) < 2)

    def enter(self, hashes: Sequence[int]) -> None:
        """A sequence that has these."""
        for block in hashes:
            before = self._owners.get(block, 0)
            self._owners[block] = before + 1
            self.common += before == 1

    def compute(self, hashes: Sequence[int]) -> None:
        """One of those that have them has computed them."""
        for block in hashes:
            self._computed[block] = self._computed.get(block, 0) + 1

    def leave(self, hashes: Sequence[int], *, is_computed: bool) -> None:
        """One that had these is gone."""
        for block in hashes:
            self.common -= _less(self._owners, block) == 1
        if is_computed:
            for block in hashes:
                _less(self._computed, block)

    def freed_by(self, leaving: Iterable[Sequence[int]]) -> int:
        """Blocks that nobody has any more when those that have these are gone."""
        gone: Counter[int] = Counter()
        for hashes in leaving:
            gone.update(hashes)
        return sum(self.owners(block) == count for block, count in gone.items())


def _less(counts: dict[int, int], block: int) -> int:
    left = counts.get(block, 0) - 1
    if left > 0:
        counts[block] = left
    else:
        counts.pop(block, None)
    return max(left, 0)
