"""The scripted engine: the stand-in model behind the engine contract, with a paged cache to run out of.

Deterministic and without OpenVINO. It schedules as the real one does (decode first, then prefill in
chunks, blocks taken as tokens are computed) and is as unforgiving when no block is left.
"""

import time
from typing import Annotated

import msgspec

from refloat.engines.base import (
    EngineFaultError,
    EngineRequest,
    LoadError,
    RequestKey,
    RequestRefusedError,
    StepResult,
)
from refloat.engines.chunk import LEAST_CHUNK, Prefill, chunk_for, seats_beside
from refloat.engines.scripted_guides import Saying, keeps_to
from refloat.kv.blocks import blocks_for
from refloat.scripted.script import ScriptError, script_of
from refloat.scripted.tokens import Reply, ScriptedTokenizer, reply_to
from refloat.wire.messages import CacheFacts, Capabilities, EngineSpec, Output
from refloat.wire.problem import Problem, ProblemKind

BLOCK_SIZE = 16
_DEFAULT_BLOCKS = 65_536
_BLOCK_BYTES = 4096
#: Said in place of a stop token where `min_tokens` forbids one.
_FILLER = ord(" ")

Seconds = Annotated[float, msgspec.Meta(ge=0)]


class ScriptedOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`EngineSpec.options` of this engine."""

    script: str | None = None
    """YAML file with the rules; the model's setting `script` ends up here."""
    rules: list[object] | None = None
    """Rules given in place, as in the file; excludes `script`."""
    step_s: Seconds = 0.0
    """Seconds that a step takes beside its prefill."""
    load_s: Seconds = 0.0
    """Seconds that a load takes."""
    prefill_s_per_1k: Seconds = 0.0
    """Seconds that a thousand tokens of prefill take."""
    spin_s: Seconds = 0.0
    """Seconds of processor time that a step with prefill takes beside all that."""
    weights_bytes: Annotated[int, msgspec.Meta(ge=0)] = 0
    """Size of the weights that the model is said to have, for the memory that a load reserves."""


class _Sequence:
    """One running request."""

    __slots__ = (
        "blocks", "cancelled", "computed", "key", "length", "logprobs", "max_tokens",
        "min_tokens", "position", "reply", "stop_ids",
    )  # fmt: skip

    def __init__(self, request: EngineRequest, reply: Reply) -> None:
        self.key = request.key
        self.reply = reply
        self.length = len(request.tokens)
        self.computed = 0
        self.blocks = 0
        self.position = request.offset
        self.cancelled = False
        self.max_tokens = request.params.max_tokens
        self.min_tokens = request.params.min_tokens
        self.stop_ids = frozenset(request.params.stop_token_ids)
        self.logprobs = request.params.logprobs

    def say(self) -> Output:
        """The output that the next token makes."""
        position = self.position
        token = self.reply.token_at(position)
        if token in self.stop_ids and position < self.min_tokens:
            token = _FILLER
        self.position = position + 1
        self.length += 1
        ended: str | None = None
        if token in self.stop_ids:
            ended = "stop"
        elif self.position >= self.max_tokens:
            ended = "length"
        logprobs = (_logprob(token, position),) if self.logprobs else None
        return Output(self.key.generation, self.key.attempt, position, (token,), logprobs, ended)

    def leave(self) -> Output:
        """The output that ends a cancelled one."""
        return Output(self.key.generation, self.key.attempt, self.position, (), None, "cancelled")


class ScriptedEngine:
    """See the module's head."""

    def __init__(self) -> None:
        self.capabilities = Capabilities()
        self._sequences: dict[RequestKey, _Sequence] = {}
        self._used_blocks = 0

    def load(self, spec: EngineSpec) -> None:
        try:
            self._options = msgspec.convert(spec.options, ScriptedOptions)
            self.tokenizer = ScriptedTokenizer(script_of(spec.options))
        except (msgspec.ValidationError, ScriptError) as error:
            raise LoadError(f"scripted engine: {error}", permanent=True) from error
        self._max_seqs = (
            max(256, spec.max_num_seqs) if spec.is_sized_by_cache else spec.max_num_seqs
        )
        self._max_tokens = self._chunk(spec)
        self._num_blocks = _num_blocks(spec)
        self.capabilities = Capabilities(
            guided=True,
            capacity=min(max(256, spec.max_num_seqs), seats_beside(self._max_tokens)),
            step_tokens=self._max_tokens,
        )
        time.sleep(self._options.load_s)

    def add(self, request: EngineRequest) -> None:
        tokens, offset, params = request.tokens, request.offset, request.params
        if not tokens:
            raise _refusal("the prompt is empty")
        if min(tokens) < 0 or max(tokens) >= self.tokenizer.vocab_size:
            raise _refusal("the prompt holds ids that are not in the vocabulary")
        split = len(tokens) - offset
        reply = reply_to(
            self.tokenizer,
            tokens[:split],
            tokens[split:],
            seed=params.seed if params.temperature > 0 else None,
        )
        if params.guide is not None and not keeps_to(params.guide, self._says(reply, request)):
            raise _refusal("the script's answer does not keep to the guide")
        self._sequences[request.key] = _Sequence(request, reply)

    def step(self) -> StepResult:
        options = self._options
        sequences = list(self._sequences.values())
        outputs = [sequence.leave() for sequence in sequences if sequence.cancelled]
        running = [sequence for sequence in sequences if not sequence.cancelled]
        budget = self._max_tokens
        prefilled = 0
        seats = self._max_seqs
        # Decode first: who speaks already is never kept waiting by a long prompt.
        for sequence in sorted(running, key=_is_prefilling):
            if budget < 1 or seats < 1:
                break
            seats -= 1
            count = min(budget, sequence.length - sequence.computed)
            budget -= count
            prefilled += count if _is_prefilling(sequence) else 0
            self._compute(sequence, count)
            if sequence.computed == sequence.length:
                outputs.append(sequence.say())
        seconds = options.step_s + options.prefill_s_per_1k * prefilled / 1000
        if seconds:
            time.sleep(seconds)
        if prefilled and options.spin_s:
            _spin(options.spin_s)
        used_blocks = self._used_blocks  # as the real one says it: from before what ended is freed
        for output in outputs:
            if output.ended is not None:
                ended = self._sequences.pop(RequestKey(output.generation, output.attempt))
                self._used_blocks -= ended.blocks
        return StepResult(outputs, used_blocks)

    def cancel(self, key: RequestKey) -> None:
        if sequence := self._sequences.get(key):
            sequence.cancelled = True

    def has_work(self) -> bool:
        return bool(self._sequences)

    def cache(self) -> CacheFacts | None:
        return CacheFacts(BLOCK_SIZE, self._num_blocks, self._num_blocks * _BLOCK_BYTES)

    def _chunk(self, spec: EngineSpec) -> int:
        """As the real engine measures it."""
        most, options = spec.max_num_batched_tokens, self._options
        if not spec.inter_token_target_s:
            return most
        small, large = (
            Prefill(tokens, options.step_s + options.prefill_s_per_1k * tokens / 1000)
            for tokens in (min(LEAST_CHUNK, most), most)
        )
        return chunk_for(spec.inter_token_target_s, small, large)

    def _says(self, reply: Reply, request: EngineRequest) -> Saying:
        """All that the reply will come to from here on."""
        params, ids = request.params, list[int]()
        for position in range(request.offset, params.max_tokens):
            token = reply.token_at(position)
            if token in params.stop_token_ids:
                return Saying(self.tokenizer.decode(ids), is_whole=True)
            ids.append(token)
        return Saying(self.tokenizer.decode(ids), is_whole=False)

    def _compute(self, sequence: _Sequence, count: int) -> None:
        sequence.computed += count
        more = blocks_for(sequence.computed, BLOCK_SIZE) - sequence.blocks
        if self._used_blocks + more > self._num_blocks:
            raise EngineFaultError(
                "Check 'm_block_table.count(seq_id) > 0' failed: no block is left",
                context_fatal=False,
            )
        sequence.blocks += more
        self._used_blocks += more


def _is_prefilling(sequence: _Sequence) -> bool:
    return sequence.length - sequence.computed > 1


def _spin(seconds: float) -> None:
    """Work, so far as anybody outside can see."""
    end_s = time.process_time() + seconds
    while time.process_time() < end_s:
        pass


def _num_blocks(spec: EngineSpec) -> int:
    if spec.num_kv_blocks is not None:
        return spec.num_kv_blocks
    if spec.cache_size_bytes is not None:
        return max(1, spec.cache_size_bytes // _BLOCK_BYTES)
    return _DEFAULT_BLOCKS


def _logprob(token: int, position: int) -> float:
    return -((token * 31 + position * 17) % 97 + 1) / 64


def _refusal(message: str) -> RequestRefusedError:
    return RequestRefusedError(Problem(kind=ProblemKind.INVALID_REQUEST, message=message))
