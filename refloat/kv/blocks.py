"""How many KV blocks a sequence needs, and who holds how many. Pure; imports nothing of ours.

Two facts of the engine shape it (measured on openvino-genai 2026.4.1). An engine that finds no block
for any sequence in a step drops *all* running sequences silently, so it must never get there. And the
blocks of a cancelled sequence come back only with the next step. So a sequence's whole need is
reserved when it is dispatched, and it is released not when somebody cancels it but when the engine
has said that this attempt ended (`Output.ended`), which it says after the step that freed it.
"""

from collections.abc import Hashable


def blocks_for(tokens: int, block_size: int) -> int:
    """Blocks that `tokens` tokens fill, the last one perhaps in part."""
    return -(-tokens // block_size)


class BlockLedger:
    """Reservations of KV blocks against one engine's cache of `total` blocks of `block_size` tokens.

    One writer; every method is O(1).
    """

    def __init__(self, total: int, block_size: int) -> None:
        if total < 1 or block_size < 1:
            raise ValueError(f"a cache of {total} blocks of {block_size} tokens holds nothing")
        self.total = total
        self.block_size = block_size
        self._held: dict[Hashable, int] = {}
        self._used = 0

    @property
    def free(self) -> int:
        """Blocks that can be promised now."""
        return self.total - self._used

    @property
    def used(self) -> int:
        """Blocks promised."""
        return self._used

    @property
    def capacity_tokens(self) -> int:
        """Tokens that one sequence can have when it is alone."""
        return self.total * self.block_size

    def fits(self, tokens: int) -> bool:
        """Whether a sequence that grows to `tokens` tokens can be promised now."""
        return blocks_for(tokens, self.block_size) <= self.free

    def reserve(self, key: Hashable, tokens: int) -> None:
        """Promise `key` room for `tokens` tokens. Raises `ValueError` for what is never legal."""
        need = blocks_for(tokens, self.block_size)
        if key in self._held:
            raise ValueError(f"{key!r} holds blocks already")
        if need > self.free:
            raise ValueError(f"{need} blocks wanted, {self.free} free")
        self._held[key] = need
        self._used += need

    def release(self, key: Hashable) -> None:
        """The engine is done with `key`. Unknown keys do nothing."""
        self._used -= self._held.pop(key, 0)
