"""A model of OpenVINO's paged cache with its traps, behind the engine contract. What no engine may be
made to do ends the test.

The traps: blocks of a cancelled sequence come back only with the next step, and with a prefix cache not
before its prompt is through; identical prompts added
together do not share; a sequence whose last block is full and shared is given its next one only if
there is one for every holder; and a block too few is everybody's end.
"""

from collections import Counter, OrderedDict

from refloat.engines.base import EngineRequest, RequestKey, StepResult
from refloat.kv.blocks import blocks_for
from refloat.wire.messages import CacheFacts, Capabilities, EngineSpec, Output
from tests.unit.generation.conftest import token_at


class _Sequence:
    def __init__(self, request: EngineRequest) -> None:
        self.key = request.key
        self.params = request.params
        self.tokens = list(request.tokens)
        self.prompt = self.tokens[: len(self.tokens) - request.offset]
        self.position = request.offset
        self.produced = 0
        self.computed = 0
        self.blocks: list[int] = []
        self.is_cancelled = False
        self.has_begun = False

    @property
    def is_generating(self) -> bool:
        return len(self.tokens) - self.computed == 1 and self.produced > 0


class TrappedEngine:
    """One engine. `used_blocks` are what it really holds, as the real one says them."""

    def __init__(
        self,
        num_blocks: int,
        block_size: int,
        *,
        max_batched: int = 8,
        shares: bool = True,
        hybrid: bool = False,
        capacity: int = 64,
    ) -> None:
        self.capabilities = Capabilities(hybrid=hybrid, capacity=capacity)
        self._cache = CacheFacts(block_size, num_blocks)
        self._size = block_size
        self.max_batched = max_batched
        self._shares = shares
        self._sequences: dict[RequestKey, _Sequence] = {}
        self._free = list(range(num_blocks))
        self._holders: Counter[int] = Counter()
        self._content: dict[int, tuple[int, ...]] = {}
        self._by_content: dict[tuple[int, ...], int] = {}
        self._idle: OrderedDict[int, None] = OrderedDict()
        """Blocks that nobody holds but whose content is kept, oldest first."""
        self._seen: set[RequestKey] = set()
        self.shared = 0
        """Blocks that newcomers found held by others."""
        self.steps = 0

    def load(self, spec: EngineSpec) -> None: ...

    def cache(self) -> CacheFacts:
        return self._cache

    def has_work(self) -> bool:
        return bool(self._sequences)

    @property
    def used(self) -> int:
        """Blocks that somebody holds."""
        return self._cache.num_blocks - len(self._free) - len(self._idle)

    def add(self, request: EngineRequest) -> None:
        assert request.key not in self._seen, "an id twice wedges the engine"
        self._seen.add(request.key)
        sequence = _Sequence(request)
        said = [token_at(sequence.prompt, position) for position in range(request.offset)]
        assert sequence.tokens[len(sequence.prompt) :] == said, "goes on from what was never said"
        self._sequences[request.key] = sequence
        length = len(sequence.tokens)
        assert blocks_for(length, self._size) <= self._cache.num_blocks
        ends = [*range(self._size, length, self._size), length] if self._shares else []
        for end in ends:
            block = self._by_content.get(tuple(sequence.tokens[:end]))
            if block is None:
                break
            self._idle.pop(block, None)
            self.shared += self._holders[block] > 0
            self._holders[block] += 1
            sequence.blocks.append(block)
            sequence.computed = min(end, length - 1)

    def cancel(self, key: RequestKey) -> None:
        if sequence := self._sequences.get(key):
            sequence.is_cancelled = True

    def step(self) -> StepResult:
        self.steps += 1
        leaving = [s for s in self._sequences.values() if self._may_leave(s)]
        working = [s for s in self._sequences.values() if s not in leaving]
        budget = self.max_batched
        outputs: list[Output] = []
        scheduled: list[_Sequence] = []
        for sequence in sorted(working, key=lambda s: not s.is_generating):
            count = min(budget, len(sequence.tokens) - sequence.computed)
            if count > 0:
                budget -= count
                self._allocate(sequence, sequence.computed + count)
                scheduled.append(sequence)
        assert scheduled or not working, "nothing scheduled: the engine would drop everybody"
        used = self.used
        for sequence in working:
            sequence.has_begun = True
        for sequence in scheduled:
            self._write(sequence)
            if sequence.computed == len(sequence.tokens):
                outputs.append(self._speak(sequence))
        outputs += [Output(*s.key, s.position, (), None, "cancelled") for s in leaving]
        for output in outputs:
            if output.ended is not None:
                self._release(RequestKey(output.generation, output.attempt))
        return StepResult(outputs, -1 if self.capabilities.hybrid else used)

    def _may_leave(self, sequence: _Sequence) -> bool:
        needs_second = self.capabilities.hybrid and sequence.produced == 1
        # what is computed of a block would be kept as if it were the whole
        in_prompt = self._shares and sequence.produced == 0 and sequence.has_begun
        return sequence.is_cancelled and not needs_second and not in_prompt

    def _speak(self, sequence: _Sequence) -> Output:
        token = token_at(sequence.prompt, sequence.position)
        position = sequence.position
        sequence.position += 1
        sequence.produced += 1
        sequence.tokens.append(token)
        ended = "length" if sequence.position >= sequence.params.max_tokens else None
        if token in sequence.params.stop_token_ids:
            ended = "stop"
        if ended is not None and self.capabilities.hybrid and sequence.produced < 2:
            ended = None
        if sequence.is_cancelled:
            return Output(*sequence.key, position, (), None, None)
        return Output(*sequence.key, position, (token,), None, ended)

    def _allocate(self, sequence: _Sequence, length: int) -> None:
        more = blocks_for(length, self._size) - len(sequence.blocks)
        last = sequence.blocks[-1] if sequence.blocks else None
        holders = self._holders[last] if last is not None and sequence.is_generating else 1
        demand = more * holders if more else holders - 1
        free = len(self._free) + len(self._idle)
        assert demand <= free, f"{demand} blocks asked for, {free} left: the engine's own way out"
        if not more and holders > 1 and last is not None:
            self._holders[last] -= 1  # it is copied before it is written to
            sequence.blocks[-1] = self._take()
        sequence.blocks += [self._take() for _ in range(more)]
        sequence.computed = length

    def _take(self) -> int:
        if self._free:
            block = self._free.pop()
        else:
            block, _ = self._idle.popitem(last=False)
            self._forget(block)
        self._holders[block] = 1
        return block

    def _write(self, sequence: _Sequence) -> None:
        """What is computed can be found by its content from the next `add` on."""
        for number, block in enumerate(sequence.blocks):
            content = tuple(sequence.tokens[: min((number + 1) * self._size, sequence.computed)])
            if self._content.get(block) != content and self._holders[block] == 1:
                self._forget(block)
                self._content[block] = content
                self._by_content[content] = block

    def _forget(self, block: int) -> None:
        content = self._content.pop(block, None)
        if content is not None and self._by_content.get(content) == block:
            del self._by_content[content]

    def _release(self, key: RequestKey) -> None:
        for block in self._sequences.pop(key).blocks:
            self._holders[block] -= 1
            if self._holders[block]:
                continue
            if self._by_content.get(self._content.get(block, ())) == block:
                self._idle[block] = None
            else:
                self._forget(block)
                self._free.append(block)
