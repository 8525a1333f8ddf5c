"""What an engine's prefix cache probably holds, by our own account. Pure; one for a worker's life.

The engine gives no count of cached tokens for a request, so `usage` gets it from here. A sequence
is a chain of full blocks (`kv/prefix.py`); one look-up a block finds the longest known beginning.
"""

from collections import OrderedDict
from collections.abc import Sequence

from refloat.kv.prefix import chain


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

    def continued(self, ids: Sequence[int], block_size: int) -> tuple[list[int], list[int]]:
        """Hashes of the full blocks of the prompt with these ids behind it, and the ids of the rest."""
        hashes = self.hashes(block_size)
        rest = [*self.ids[len(hashes) * block_size :], *ids]
        if len(rest) < block_size:
            return hashes, rest
        more = chain(rest, block_size, parent=hashes[-1] if hashes else 0)
        return hashes + more, rest[len(more) * block_size :]


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
