"""The last guard before an engine: what would over-fill its cache is refused, never stepped. Pure.

The gateway's policy does the same arithmetic and should never be caught here; but an engine whose
cache runs full drops every running sequence or ends the process, so the worker counts for itself.
"""

from refloat.engines.base import EngineRequest, RequestKey
from refloat.kv.blocks import BlockLedger, blocks_for
from refloat.wire.messages import CacheFacts
from refloat.wire.problem import Problem, ProblemKind


class AdmissionGuard:
    """Counts what the engine was given until it says that it is done with it."""

    def __init__(self, capacity: int, cache: CacheFacts | None) -> None:
        self._capacity = capacity
        self._held: set[RequestKey] = set()
        self._ledger = None if cache is None else BlockLedger(cache.num_blocks, cache.block_size)

    def take(self, request: EngineRequest) -> Problem | None:
        """Count a request in; or say why it must not reach the engine."""
        if request.params.max_tokens <= request.offset:
            message = "nothing is left to generate: max_tokens is reached"
            return Problem(kind=ProblemKind.INVALID_REQUEST, message=message)
        if request.key in self._held:
            message = "the worker was given the same attempt twice"
            return Problem(kind=ProblemKind.INTERNAL_ERROR, message=message)
        if len(self._held) >= self._capacity:
            message = f"the engine holds {self._capacity} sequences, which is all it can"
            return Problem(kind=ProblemKind.OVERLOADED, message=message)
        # At its longest it holds the original prompt and max_tokens; it holds its tokens at least.
        tokens = len(request.tokens) - request.offset + request.params.max_tokens
        ledger = self._ledger
        if ledger is not None:
            if not ledger.fits(tokens):
                need = blocks_for(tokens, ledger.block_size)
                message = f"{need} KV blocks are needed, {ledger.free} of {ledger.total} are free"
                return Problem(kind=ProblemKind.OVERLOADED, message=message)
            ledger.reserve(request.key, tokens)
        self._held.add(request.key)
        return None

    def release(self, key: RequestKey) -> None:
        """The engine has freed it, or never took it. Unknown keys do nothing."""
        self._held.discard(key)
        if self._ledger is not None:
            self._ledger.release(key)
