"""The last guard before an engine: what would over-fill its cache never reaches it. Pure.

The gateway's policy does the same arithmetic from what it heard last; the worker, which knows where
every sequence stands now, does it again before every step. A newcomer for whom there is no room is
given back, and a running one whose next block would be missing is stopped one step before: both go
on later, and only what can never run is refused.
"""

from collections.abc import Sequence

from refloat.engines.base import EngineRequest, RequestKey
from refloat.kv.blocks import BlockLedger, blocks_for, prefill_steps
from refloat.kv.prefix import chain
from refloat.wire.messages import CacheFacts, Capabilities, Output
from refloat.wire.problem import Problem, ProblemKind

#: Steps after which the blocks of a cancelled sequence are back. A hybrid engine's sequence that
#: stands at its first token is given one more first, and each may compute one token too many.
_RELEASE_STEPS = 1
_HYBRID_RELEASE_STEPS = 2


class AdmissionGuard:
    """Counts what the engine was given until it says that it is done with it."""

    def __init__(
        self,
        capabilities: Capabilities,
        cache: CacheFacts | None,
        *,
        is_sharing: bool = False,
        step_tokens: int = 512,
    ) -> None:
        """`is_sharing`: the engine has a prefix cache, and nobody leaves it in the midst of a prompt.
        `step_tokens`: what a step computes at most."""
        self._is_caching = is_sharing
        self._step_tokens = step_tokens
        self._prefills: dict[RequestKey, int] = {}
        """Tokens of those that have brought none yet."""
        self._capacity = capabilities.capacity
        self._can_grow = capabilities.token_resume
        self._steps = _HYBRID_RELEASE_STEPS if capabilities.hybrid else _RELEASE_STEPS
        self._held: dict[RequestKey, bool] = {}
        """Whether it is sampled: those are stopped last."""
        self._leaving: set[RequestKey] = set()
        self._ledger: BlockLedger | None = None
        if cache is not None:
            sharing = is_sharing and self._can_grow and not capabilities.hybrid
            self._ledger = BlockLedger(cache.num_blocks, cache.block_size, is_sharing=sharing)

    def problem(self, request: EngineRequest) -> Problem | None:
        """Why a request can never run, or is none; `None`: it may, when there is room."""
        if request.params.max_tokens <= request.offset:
            message = "nothing is left to generate: max_tokens is reached"
            return Problem(kind=ProblemKind.INVALID_REQUEST, message=message)
        if request.key in self._held:
            message = "the worker was given the same attempt twice"
            return Problem(kind=ProblemKind.INTERNAL_ERROR, message=message)
        ledger = self._ledger
        if ledger is not None and _longest(request) > ledger.capacity_tokens:
            need = blocks_for(_longest(request), ledger.block_size)
            message = f"{need} KV blocks are needed, the cache has {ledger.total}"
            return Problem(kind=ProblemKind.OVERLOADED, message=message)
        return None

    def take(self, request: EngineRequest) -> bool:
        """Count a request in; `False`: there is no room for it now."""
        if len(self._held) >= self._capacity:
            return False
        ledger = self._ledger
        if ledger is not None:
            tokens, limit = len(request.tokens), _longest(request)
            hashes = chain(request.tokens, ledger.block_size) if ledger.is_sharing else []
            tail = request.tokens[len(hashes) * ledger.block_size :]
            if not self._can_grow:
                tokens = limit
            pending = sum(self._prefills.values()) + len(request.tokens)
            steps = self._steps
            if self._is_caching:
                steps += prefill_steps(pending, self._step_tokens, len(self._held))
            if not ledger.has_room_for(tokens, steps, limit=limit, hashes=hashes):
                return False
            ledger.enter(request.key, tokens, limit=limit, hashes=hashes, tail=tail)
        self._held[request.key] = request.params.temperature > 0
        self._prefills[request.key] = len(request.tokens)
        return True

    def victims(self) -> list[RequestKey]:
        """Who has to be stopped before the coming step, so that the one after it finds its blocks: the
        youngest, sampled ones last, the oldest only if nobody else can. They hold their blocks until
        `release`."""
        ledger = self._ledger
        victims: list[RequestKey] = []
        if ledger is None or not self._can_grow:
            return victims
        while ledger.need(self._steps) > ledger.total:
            staying = [key for key in self._held if key not in self._leaving]
            quick = [key for key in staying if not (self._is_caching and key in self._prefills)]
            if len(staying) < 2 or not quick:
                break
            oldest = min(staying)
            victim = max(quick, key=lambda key: (key != oldest, not self._held[key], key))
            self.leave(victim)
            victims.append(victim)
        return victims

    def leave(self, key: RequestKey) -> None:
        """It was cancelled: it holds its blocks until `release`. Unknown keys do nothing."""
        if key in self._held:
            self._leaving.add(key)
            if self._ledger is not None:
                self._ledger.leave(key)

    def stepped(self, outputs: Sequence[Output], used_blocks: int) -> None:
        """A step brought this; so many blocks were in use in it (negative: not known)."""
        ledger = self._ledger
        if ledger is not None and self._can_grow:
            ledger.observe(used_blocks)
        for output in outputs:
            key = RequestKey(output.generation, output.attempt)
            if output.ended is not None:
                self.release(key)
            elif output.ids:
                self._prefills.pop(key, None)
                if ledger is not None and self._can_grow:
                    ledger.grow(key, output.ids)

    def release(self, key: RequestKey) -> None:
        """The engine has freed it, or never took it. Unknown keys do nothing."""
        self._held.pop(key, None)
        self._prefills.pop(key, None)
        self._leaving.discard(key)
        if self._ledger is not None:
            self._ledger.release(key)


def _longest(request: EngineRequest) -> int:
    """Tokens at its longest: the original prompt and `max_tokens`."""
    return len(request.tokens) - request.offset + request.params.max_tokens
