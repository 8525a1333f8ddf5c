"""What an engine's prefix cache probably holds, by our own account. Pure; one for a worker's life.

The engine gives no count of cached tokens for a request, so `usage` gets it from here. A sequence
is a chain of full blocks; each is known by the hash of its ids and of its predecessor, so that one
look-up a block finds the longest known beginning. Hashes are Python's own, keyed at random for each
process: nobody outside can make two beginnings collide.
"""

from collections import OrderedDict
from collections.abc import Sequence

from refloat.wire.messages import pack_ids

_ID_BYTES = 4


def chain(ids: Sequence[int], block_size: int, known: Sequence[int] = ()) -> list[int]:
    """Hashes of the full blocks of `ids`; `known` are those of its first blocks, if computed."""
    hashes = list(known)
    parent = hashes[-1] if hashes else 0
    size = block_size * _ID_BYTES
    first = len(hashes) * block_size
    packed = pack_ids(ids[first : len(ids) - len(ids) % block_size])
    for start in range(0, len(packed), size):
        parent = hash((parent, packed[start : start + size]))
        hashes.append(parent)
    return hashes


class PromptChain:
    """One prompt's hashes, computed once however many choices and workers ask."""

    __slots__ = ("_block_size", "_hashes", "ids")

    def __init__(self, ids: list[int]) -> None:
        self.ids = ids
        self._block_size = 0
        self._hashes: list[int] = []

    def hashes(self, block_size: int) -> list[int]:
        """Of its full blocks of this size."""
        if block_size != self._block_size:
            self._hashes = chain(self.ids, block_size)
            self._block_size = block_size
        return self._hashes


class PrefixIndex:
    """Blocks in the cache, least recently used first; at most as many as the cache has."""

    def __init__(self, block_size: int, num_blocks: int) -> None:
        self.block_size = block_size
        self._num_blocks = num_blocks
        self._blocks: OrderedDict[int, None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._blocks)

    def lookup(self, prompt: PromptChain) -> int:
        """Tokens of the prompt that need not be computed: at most all but one, since the last
        token's own computation is what gives the first token of the answer."""
        hashes = prompt.hashes(self.block_size)
        found = 0
        for block in hashes:
            if block not in self._blocks:
                break
            found += 1
        for block in reversed(hashes[:found]):
            self._blocks.move_to_end(block)
        return min(found * self.block_size, len(prompt.ids) - 1)

    def insert(self, blocks: Sequence[int]) -> None:
        """These blocks have been computed. Last ones first: a chain is forgotten from its end."""
        for block in reversed(blocks):
            self._blocks[block] = None
            self._blocks.move_to_end(block)
        while len(self._blocks) > self._num_blocks:
            self._blocks.popitem(last=False)
