"""How many KV blocks sequences hold and will need, in one engine's cache. Pure.

The one arithmetic of the gateway's policy and of the worker's last guard. Facts of the engine shape it
(measured on openvino-genai 2026.4.1): a step that finds a block for nobody drops *all* running
sequences, so that must never come; blocks of a cancelled sequence come back only with the next step,
so a sequence holds its blocks until its end was reported, not until somebody asked for it; and an
engine with a prefix cache keeps a block that several hold once (`prefix.py`).
"""

from collections.abc import Hashable, Sequence

from refloat.kv.prefix import SharedBlocks


def blocks_for(tokens: int, block_size: int) -> int:
    """Blocks that `tokens` tokens fill, the last one perhaps in part."""
    return -(-tokens // block_size)


class _Entry:
    """One sequence in the engine."""

    __slots__ = ("blocks", "hashes", "held", "is_computed", "is_leaving", "limit", "tokens")

    def __init__(self, tokens: int, blocks: int, limit: int, hashes: Sequence[int]) -> None:
        self.tokens = tokens
        self.blocks = blocks
        self.limit = limit
        self.hashes = hashes
        """Of its full blocks, as far as others may share them."""
        self.held = 0
        """How many of the first of those it shares, or is the one who shares them."""
        self.is_computed = False
        self.is_leaving = False


class BlockLedger:
    """Who holds how many of `total` blocks of `block_size` tokens. One writer.

    Blocks held in common are counted once from the moment the engine's own figures have shown that it
    shares (`observe`), and each time in full until then, and for ever once they showed the contrary.
    """

    def __init__(self, total: int, block_size: int, *, is_sharing: bool = False) -> None:
        """`is_sharing`: the engine has a prefix cache."""
        if total < 1 or block_size < 1:
            raise ValueError(f"a cache of {total} blocks of {block_size} tokens holds nothing")
        self.total = total
        self.block_size = block_size
        self.is_sharing = is_sharing
        self.is_proven = False
        """The engine was seen to share."""
        self._shared = SharedBlocks()
        self._entries: dict[Hashable, _Entry] = {}
        self._uncomputed: dict[Hashable, _Entry] = {}
        self._edges: dict[Hashable, int] = {}
        """Newcomers whose last block is full and held by others, with its hash."""
        self._private = 0
        self._full = 0
        self.leaving = 0
        """Sequences whose end was asked for but not yet reported."""

    def __len__(self) -> int:
        """Sequences that hold blocks."""
        return len(self._entries)

    @property
    def used(self) -> int:
        """Blocks held now: what the engine has in use is never more."""
        return self._mirrored if self.is_proven else self._full

    @property
    def _mirrored(self) -> int:
        return self._private + len(self._shared)

    @property
    def capacity_tokens(self) -> int:
        """Tokens that one sequence can have when it is alone."""
        return self.total * self.block_size

    def enter(self, key: Hashable, tokens: int, *, limit: int, hashes: Sequence[int] = ()) -> None:
        """A sequence of so many tokens, `limit` at its longest, goes to the engine. `hashes`: of its
        full blocks. Raises `ValueError` for one that is there already."""
        if key in self._entries:
            raise ValueError(f"{key!r} holds blocks already")
        limit = min(limit, self.capacity_tokens)
        entry = _Entry(tokens, blocks_for(min(tokens, limit), self.block_size), limit, hashes)
        if self.is_sharing and hashes:
            entry.held = self._sharable(tokens, hashes)
            self._shared.hold(hashes[: entry.held])
            if len(hashes) * self.block_size == tokens and self._shared.holders(hashes[-1]):
                self._edges[key] = hashes[-1]
        self._entries[key] = self._uncomputed[key] = entry
        self._private += entry.blocks - entry.held
        self._full += entry.blocks

    def shared(self, tokens: int, hashes: Sequence[int]) -> int:
        """Blocks of such a newcomer that would be held once with others."""
        return self._sharable(tokens, hashes) if self.is_proven else 0

    def computed(self, key: Hashable) -> None:
        """The sequence has brought its first token: its blocks are there for others to share."""
        entry = self._uncomputed.pop(key, None)
        if entry is None:
            return
        entry.is_computed = True
        if self.is_sharing:
            before = entry.held
            entry.held = self._shared.publish(entry.hashes, before)
            self._private -= entry.held - before

    def grow(self, key: Hashable, count: int) -> None:
        """The sequence has so many more tokens. Unknown keys do nothing."""
        entry = self._entries.get(key)
        if entry is None:
            return
        entry.tokens += count
        if self._edges and entry.tokens > len(entry.hashes) * self.block_size + 1:
            self._edges.pop(key, None)
        if entry.tokens > entry.blocks * self.block_size:
            more = blocks_for(min(entry.tokens, entry.limit), self.block_size) - entry.blocks
            entry.blocks += more
            self._private += more
            self._full += more

    def leave(self, key: Hashable) -> None:
        """Its end was asked for: it holds what it has until `release`, and may even grow until the
        engine hears of it."""
        entry = self._entries.get(key)
        if entry is not None and not entry.is_leaving:
            entry.is_leaving = True
            self.leaving += 1

    def release(self, key: Hashable) -> None:
        """The engine is done with `key`. Unknown keys do nothing."""
        entry = self._entries.pop(key, None)
        if entry is None:
            return
        self._uncomputed.pop(key, None)
        self._edges.pop(key, None)
        self.leaving -= entry.is_leaving
        self._private -= entry.blocks - entry.held
        self._full -= entry.blocks
        if self.is_sharing and self._shared.withdraw(
            entry.hashes, entry.held, is_computed=entry.is_computed
        ):
            self._doubt()

    def need(self, steps: int) -> int:
        """Blocks needed when everybody who stays has come so many tokens further and those who leave
        are gone."""
        if not self.leaving:
            most = self.used + len(self._entries) * blocks_for(steps, self.block_size)
            if most + self._slack() <= self.total:
                return most  # an upper bound is enough where it fits
        leaving = [entry for entry in self._entries.values() if entry.is_leaving]
        if self.is_proven:
            freed = sum(entry.blocks - entry.held for entry in leaving)
            freed += self._shared.freed_by(entry.hashes[: entry.held] for entry in leaving)
        else:
            freed = sum(entry.blocks for entry in leaving)
        return self.used - freed + self._growth(steps) + self._slack()

    def awaits(self, hashes: Sequence[int]) -> bool:
        """Whether a newcomer's first block is just being computed for somebody else: later it could
        be shared, now it would be computed and kept twice."""
        if not (self.is_sharing and hashes) or self._shared.known(hashes[:1]):
            return False
        return any(entry.hashes[:1] == hashes[:1] for entry in self._uncomputed.values())

    def has_room_for(
        self, tokens: int, steps: int, *, limit: int, hashes: Sequence[int] = (), beside: int = 0
    ) -> bool:
        """Whether a newcomer fits so that everybody can come `steps` tokens further, those who leave
        still counted, and `beside` blocks for others. Into an empty cache goes whatever is not longer
        than it."""
        if not self._entries and not beside:
            return blocks_for(limit, self.block_size) <= self.total
        longest = min(tokens + steps, max(tokens, min(limit, self.capacity_tokens)))
        mine = blocks_for(longest, self.block_size) - self.shared(tokens, hashes)
        slack = self._slack()
        if self.is_sharing and hashes and len(hashes) * self.block_size == tokens:
            slack = max(slack, self._shared.holders(hashes[-1]))
        growth = self._growth(steps, with_leaving=True)
        return self.used + growth + mine + slack + beside <= self.total

    @property
    def common(self) -> int:
        """Blocks that several hold, counted once."""
        return self._shared.common if self.is_proven else 0

    def own_tokens(self, key: Hashable) -> int:
        """Its tokens beyond the blocks that it holds in common with others."""
        entry = self._entries[key]
        if not (entry.held and self.is_proven):
            return entry.tokens
        return entry.tokens - self._shared.common_of(entry.hashes[: entry.held]) * self.block_size

    def observe(self, used: int) -> bool:
        """What the engine had in use in a step, asked before the step's tokens are counted (`grow`);
        negative: it does not know. `False`: it uses more than was counted, so it does not share as it
        should, and nothing is counted as shared any more."""
        if used < 0 or not self.is_sharing:
            return True
        if used > self._mirrored:
            self.is_sharing = self.is_proven = False
            self._private = self._full
            for entry in self._entries.values():
                entry.held = 0
            self._shared = SharedBlocks()
            self._edges.clear()
            return False
        if not self._uncomputed and self._mirrored < self._full:
            self.is_proven = True
        return True

    def _sharable(self, tokens: int, hashes: Sequence[int]) -> int:
        """The last block is never one of them: an engine that has to write to it copies it first."""
        if not self.is_sharing:
            return 0
        return min(self._shared.known(hashes), max(0, tokens - 1) // self.block_size)

    def _growth(self, steps: int, *, with_leaving: bool = False) -> int:
        size = self.block_size
        return sum(
            blocks_for(min(entry.tokens + steps, entry.limit), size) - entry.blocks
            for entry in self._entries.values()
            if entry.tokens + steps > entry.blocks * size and (with_leaving or not entry.is_leaving)
        )

    def _slack(self) -> int:
        """What engines ask for beyond their need: a newcomer whose last block is full and shared is
        given its next one only when there is one for every holder."""
        if not self._edges:
            return 0
        return max(self._shared.holders(block) for block in self._edges.values())

    def _doubt(self) -> None:
        """Somebody's shared block is gone with the last one who is known to have computed it, and may
        have been gone before the newcomers who count on it reached the engine."""
        for entry in self._uncomputed.values():
            if entry.held and self._shared.is_doubtful(entry.hashes[: entry.held]):
                self._shared.withdraw(entry.hashes, entry.held, is_computed=False)
                self._private += entry.held
                entry.held = 0
