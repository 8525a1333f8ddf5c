"""How many KV blocks sequences hold and will need, in one engine's cache. Pure.

The one arithmetic of the gateway's policy and of the worker's last guard. Facts of the engine shape it
(measured on openvino-genai 2026.4.1): a step that finds a block for nobody drops *all* running
sequences, so that must never come; blocks of a cancelled sequence come back only with the next step,
so a sequence holds its blocks until its end was reported, not until somebody asked for it; and an
engine with a prefix cache keeps a block that several hold once (`prefix.py`).
"""

from collections.abc import Collection, Hashable, Sequence

from refloat.kv.prefix import SharedBlocks, chain


def blocks_for(tokens: int, block_size: int) -> int:
    """Blocks that `tokens` tokens fill, the last one perhaps in part."""
    return -(-tokens // block_size)


class _Entry:
    """One sequence in the engine."""

    __slots__ = ("blocks", "hashes", "is_computed", "is_leaving", "limit", "tail", "tokens")

    def __init__(self, tokens: int, blocks: int, limit: int) -> None:
        self.tokens = tokens
        self.blocks = blocks
        self.limit = limit
        self.hashes: list[int] = []
        """Of its full blocks: whoever has the same ones may hold them with it."""
        self.tail: list[int] = []
        """Ids behind those."""
        self.is_computed = False
        self.is_leaving = False


class BlockLedger:
    """Who holds how many of `total` blocks of `block_size` tokens. One writer.

    Two counts are kept, and the lower one holds. One takes every sequence in full. The other follows
    what an engine with a prefix cache says it has in use, adding in full all that came since and
    taking off only what certainly went: so it knows what sequences hold in common. If the engine ever
    has more in use than that, it is not believed again.
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
        self.leaving = 0
        """Sequences whose end was asked for but not yet reported."""
        self._shared = SharedBlocks()
        self._entries: dict[Hashable, _Entry] = {}
        self._uncomputed: dict[Hashable, _Entry] = {}
        self._edges: dict[Hashable, tuple[int, int]] = {}
        """Newcomers whose last block is full and not theirs alone, with its hash and their tokens."""
        self._full = 0
        self._bound = 0

    def __len__(self) -> int:
        """Sequences that hold blocks."""
        return len(self._entries)

    @property
    def used(self) -> int:
        """Blocks held now, or a few more."""
        return min(self._full, self._bound)

    @property
    def capacity_tokens(self) -> int:
        """Tokens that one sequence can have when it is alone."""
        return self.total * self.block_size

    @property
    def common(self) -> int:
        """Blocks that several hold together."""
        return self._shared.common if self.is_proven else 0

    def common_of(self, key: Hashable) -> int:
        """How many of its blocks it holds together with others."""
        return self._shared.common_of(self._entries[key].hashes) if self.is_proven else 0

    def known(self, hashes: Sequence[int]) -> int:
        """How many of these blocks a newcomer will probably hold together with others."""
        return self._shared.known(hashes) if self.is_proven else 0

    def enter(
        self,
        key: Hashable,
        tokens: int,
        *,
        limit: int,
        hashes: Sequence[int] = (),
        tail: Sequence[int] = (),
    ) -> None:
        """A sequence of so many tokens, `limit` at its longest, goes to the engine. `hashes`: of its
        full blocks; `tail`: the ids behind those. Raises `ValueError` for one that is there already."""
        if key in self._entries:
            raise ValueError(f"{key!r} holds blocks already")
        limit = min(limit, self.capacity_tokens)
        entry = _Entry(tokens, blocks_for(min(tokens, limit), self.block_size), limit)
        if self.is_sharing:
            entry.hashes, entry.tail = list(hashes), list(tail)
            if self._is_edge(tokens, hashes):
                self._edges[key] = (hashes[-1], tokens)
            self._shared.enter(hashes)
        self._entries[key] = self._uncomputed[key] = entry
        self._full += entry.blocks
        self._bound += entry.blocks

    def awaits(self, hashes: Sequence[int], beside: Collection[int] = ()) -> bool:
        """Whether the first block that a newcomer cannot share is just being computed for somebody
        else, or will be for one with a block of `beside`: later it could be shared, now it would be
        computed and kept twice."""
        if not self.is_sharing:
            return False
        known = self._shared.known(hashes)
        following = list(hashes[known : known + 1])
        return bool(following) and (
            following[0] in beside
            or any(
                entry.hashes[known : known + 1] == following for entry in self._uncomputed.values()
            )
        )

    def grow(self, key: Hashable, ids: Sequence[int]) -> None:
        """The sequence has brought these tokens, so all before them has been computed. Unknown keys
        do nothing."""
        entry = self._entries.get(key)
        if entry is None:
            return
        entry.tokens += len(ids)
        if not entry.is_computed and ids:
            entry.is_computed = True
            del self._uncomputed[key]
            self._shared.compute(entry.hashes)
        if self._edges and entry.tokens > self._edges.get(key, (0, 0))[1] + 1:
            self._edges.pop(key, None)
        if self.is_sharing:
            self._name(entry, ids)
        if entry.tokens > entry.blocks * self.block_size:
            more = blocks_for(min(entry.tokens, entry.limit), self.block_size) - entry.blocks
            entry.blocks += more
            self._full += more
            self._bound += more

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
        self._full -= entry.blocks
        self._bound -= self._certain([entry])
        self._shared.leave(entry.hashes, is_computed=entry.is_computed)
        if not self._entries:
            self._bound = 0

    def observe(self, used: int) -> bool:
        """What the engine had in use in a step, said before the step's tokens are counted (`grow`);
        negative: it does not know. `False`: more than it can have; from now on everybody is counted
        in full."""
        if used < 0 or not self.is_sharing:
            return True
        if used > self.used:
            self.is_sharing = self.is_proven = False
            self._bound = self._full
            self._shared = SharedBlocks()
            self._edges.clear()
            for entry in self._entries.values():
                entry.hashes, entry.tail = [], []
            return False
        coming = sum(entry.blocks for entry in self._uncomputed.values())
        # a block beside: one that is written to may be held by two for a moment
        self._bound = min(self._bound, used + coming + 1)
        # a sequence that was cancelled, or not in the step, has not taken its last block
        self.is_proven = self.is_proven or used + coming + len(self._entries) < self._full
        return True

    def need(self, steps: int) -> int:
        """Blocks needed when everybody who stays has come so many tokens further and those who leave
        are gone."""
        if not self.leaving:
            most = self.used + len(self._entries) * blocks_for(steps, self.block_size)
            if most + self._slack() <= self.total:
                return most  # an upper bound is enough where it fits
        leaving = [
            entry
            for entry in self._entries.values()
            # one in the midst of its prompt may have to come to its end first (`prefix.py`)
            if entry.is_leaving and (entry.is_computed or not self.is_sharing)
        ]
        full = self._full - sum(entry.blocks for entry in leaving)
        left = min(full, self._bound - self._certain(leaving))
        return left + self._growth(steps) + self._slack()

    def has_room_for(
        self, tokens: int, steps: int, *, limit: int, hashes: Sequence[int] = (), beside: int = 0
    ) -> bool:
        """Whether a newcomer fits so that everybody can come `steps` tokens further, those who leave
        still counted, and `beside` blocks for others. Into an empty cache goes whatever is not longer
        than it."""
        if not self._entries and not beside:
            return blocks_for(limit, self.block_size) <= self.total
        longest = min(tokens + steps, max(tokens, min(limit, self.capacity_tokens)))
        mine = blocks_for(longest, self.block_size)
        slack = self._slack()
        if self._is_edge(tokens, hashes):
            slack = max(slack, self._shared.owners(hashes[-1]))
        growth = self._growth(steps, with_leaving=True)
        return self.used + growth + mine + slack + beside <= self.total

    def _name(self, entry: _Entry, ids: Sequence[int]) -> None:
        """Keep the hashes of its full blocks, generated ones too."""
        entry.tail.extend(ids)
        if len(entry.tail) >= self.block_size:
            known = entry.hashes[-1:]
            more = chain(entry.tail, self.block_size, parent=known[0] if known else 0)
            del entry.tail[: len(more) * self.block_size]
            entry.hashes += more
            self._shared.enter(more)
            self._shared.compute(more)

    def _certain(self, leaving: Sequence[_Entry]) -> int:
        """Blocks that are certainly free when these are gone: those that nobody else has."""
        private = sum(entry.blocks - len(entry.hashes) for entry in leaving)
        return private + self._shared.freed_by(entry.hashes for entry in leaving)

    def _growth(self, steps: int, *, with_leaving: bool = False) -> int:
        size = self.block_size
        return sum(
            blocks_for(min(entry.tokens + steps, entry.limit), size) - entry.blocks
            for entry in self._entries.values()
            if entry.tokens + steps > entry.blocks * size and (with_leaving or not entry.is_leaving)
        )

    def _is_edge(self, tokens: int, hashes: Sequence[int]) -> bool:
        is_full = len(hashes) * self.block_size == tokens
        return is_full and bool(hashes) and self._shared.owners(hashes[-1]) > 0

    def _slack(self) -> int:
        """What engines ask for beyond their need: a newcomer whose last block is full and not its own
        alone is given the next one only when there is one for every owner."""
        if not self._edges:
            return 0
        return max(self._shared.owners(block) for block, _ in self._edges.values())


def prefill_steps(pending: int, step_tokens: int, running: int) -> int:
    """Steps until so many prompt tokens are computed beside `running` sequences, one token each."""
    return blocks_for(pending, max(1, step_tokens - running))
