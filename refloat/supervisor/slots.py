"""How many sequences may run at a time on a worker. Pure."""

from refloat.wire.messages import CacheFacts, EngineSpec

#: For so many a cache is made and memory is reserved if nobody says how many are to run.
USUAL_SEQS = 64
#: A sequence has one block that it fills and one that it grows into.
_BLOCKS_EACH = 2
#: What engines hold whatever they were told.
_MOST = 256


def slots_for(spec: EngineSpec, cache: CacheFacts | None) -> int:
    """As configured; else as many as the cache has blocks for. Blocks decide all the same: this only
    keeps a batch from more than an engine was made for."""
    if not spec.is_sized_by_cache or cache is None:
        return spec.max_num_seqs
    return max(1, min(_MOST, cache.num_blocks // _BLOCKS_EACH))
