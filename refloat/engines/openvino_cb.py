"""OpenVINO GenAI's continuous batching behind the engine contract: `add_request`, `step`, handles.

The engine's habits that shape this file were measured on 2026.4.1: ids are never reused, since one id
twice wedges every later step, and the model's own EOS is added to a request's stop ids unless one is
named. What a running request has to come to is in `openvino_live.py`.
"""

import numpy as np
import openvino as ov
import openvino_genai as genai

from refloat.engines.base import EngineRequest, RequestKey, RequestRefusedError, StepResult
from refloat.engines.chunk import seats_beside
from refloat.engines.engine_text import clean_message, fault_error, is_out_of_memory
from refloat.engines.model_shape import block_size_of
from refloat.engines.openvino_build import build_pipeline
from refloat.engines.openvino_guides import structured_output, warm_guides
from refloat.engines.openvino_live import Handle, LiveRequest
from refloat.kv.blocks import blocks_for
from refloat.wire.faults import is_context_fatal
from refloat.wire.messages import CacheFacts, Capabilities, EngineSpec, Output, SamplingParams
from refloat.wire.problem import Problem, ProblemKind

_BLOCK_SIZES = (16, 32, 64, 128, 256)
_SEED_MASK = (1 << 63) - 1
#: A hybrid model's request that ends at exactly one token spoils its prompt's cached state; and while
#: it stands there, that state is wrong for whoever comes with the same prompt.
_HYBRID_LEAST_TOKENS = 2


class OpenVinoEngine:
    """See the module's head. Never destroyed: the process leaves with `os._exit`."""

    def __init__(self) -> None:
        self.capabilities = Capabilities()
        self._live: dict[RequestKey, LiveRequest] = {}
        self._held: dict[RequestKey, tuple[EngineRequest, genai.GenerationConfig]] = {}
        """Requests that wait for another's step before the engine may see them."""
        self._ends: list[Output] = []
        """Ends of requests that the engine never saw, to be told with the next step."""
        self._next_id = 1
        self._bytes_total = 0

    def load(self, spec: EngineSpec) -> None:
        built = build_pipeline(spec)
        self._pipeline = built.pipeline
        self._vocab_size = built.shape.vocab_size
        self._hybrid = built.shape.hybrid
        self._caching = spec.enable_prefix_caching
        self._num_blocks = built.plan.num_blocks
        self._block_size = block_size_of(spec.device)
        self._max_batched = built.step_tokens
        seats = built.plan.seats if self._hybrid else max(256, spec.max_num_seqs)
        self.capabilities = Capabilities(
            hybrid=self._hybrid,
            capacity=min(seats, seats_beside(built.step_tokens)),
            guided=warm_guides(self._pipeline),
            step_tokens=built.step_tokens,
        )

    def add(self, request: EngineRequest) -> None:
        self._check(request)
        config = self._generation_config(request.params, request.offset)
        if self._has_to_wait(request):
            try:
                config.validate()
            except Exception as error:
                raise _refusal(clean_message(str(error))) from error
            self._held[request.key] = request, config
        else:
            self._start(request, config)

    def _start(self, request: EngineRequest, config: genai.GenerationConfig) -> None:
        tokens = ov.Tensor(np.array([request.tokens], dtype=np.int64))
        request_id = self._next_id
        self._next_id += 1
        try:
            handle: Handle = self._pipeline.add_request(request_id, tokens, config)  # pyright: ignore[reportUnknownMemberType]
        except Exception as error:
            text = str(error)
            if is_context_fatal(text) or is_out_of_memory(text):
                raise fault_error(error) from error
            raise _refusal(clean_message(text)) from error
        self._live[request.key] = LiveRequest(
            request, handle, hybrid=self._hybrid, caching=self._caching
        )

    def step(self) -> StepResult:
        if self._held:
            self._release()
        try:
            if self._live:
                self._pipeline.step()
        except Exception as error:
            raise fault_error(error) from error
        outputs, self._ends = self._ends, []
        ended = False
        for live in self._live.values():
            output = live.collect()
            if output is not None:
                outputs.append(output)
                ended = ended or output.ended is not None
        metrics = self._pipeline.get_metrics()
        used = round(metrics.cache_usage * self._num_blocks / 100)
        if not self._bytes_total:
            self._bytes_total = metrics.cache_size_in_bytes
            self._measure(used)
        if ended:
            for output in outputs:
                if output.ended is not None:
                    self._live.pop(RequestKey(output.generation, output.attempt), None)
        return StepResult(outputs, -1 if self._hybrid else used)

    def cancel(self, key: RequestKey) -> None:
        live = self._live.get(key)
        if key in self._held:
            request, _ = self._held.pop(key)
            self._ends.append(_end(request, "cancelled"))
        if live is not None and live.ending is None:
            live.end("cancelled")

    def has_work(self) -> bool:
        return bool(self._live or self._held or self._ends)

    def cache(self) -> CacheFacts | None:
        return CacheFacts(self._block_size, self._num_blocks, self._bytes_total)

    def wedge(self, *, by_grammar: bool) -> None:
        """The newest request's id once more, while that runs, or a grammar that does not compile, which
        no `add_request` notices: every later step raises, for every request."""
        config = genai.GenerationConfig()
        request_id = self._next_id - 1
        if by_grammar:
            config.structured_output_config = genai.StructuredOutputConfig(json_schema="{")
            request_id = self._next_id
            self._next_id += 1
        config.max_new_tokens = 2
        config.apply_chat_template = False
        tokens = ov.Tensor(np.array([[1, 2]], dtype=np.int64))
        # held: a request whose handle is dropped is dropped as well
        self._twin: Handle = self._pipeline.add_request(request_id, tokens, config)  # pyright: ignore[reportUnknownMemberType]

    def _has_to_wait(self, request: EngineRequest) -> bool:
        """Whether what it would find in the prefix cache is not whole yet: of one with the same
        beginning that is in the midst of its prompt, or of a hybrid model's at its first token."""
        if not self._caching:
            return False
        tokens = request.tokens
        for live in self._live.values():
            if live.produced > self._hybrid:
                continue
            shared = len(live.tokens)
            if live.produced == 0:
                shared = min(self._block_size, len(tokens), shared)
            if tokens[:shared] == live.tokens[:shared]:
                return True
        return False

    def _release(self) -> None:
        """Give the engine what was held and need not wait any longer."""
        for key, (request, config) in list(self._held.items()):
            if self._has_to_wait(request):
                continue
            del self._held[key]
            try:
                self._start(request, config)
            except RequestRefusedError:
                self._ends.append(_end(request, "ignored"))

    def _check(self, request: EngineRequest) -> None:
        """Refuse what the engine would take and then read garbage for, or end the process over."""
        if not request.tokens:
            raise _refusal("the prompt is empty")
        if request.params.max_tokens <= request.offset:
            raise _refusal("nothing is left to generate: max_tokens is reached")
        if request.params.guide is not None and not self.capabilities.guided:
            raise _refusal("the engine has no grammars for this model")
        vocab = self._vocab_size
        if min(request.tokens) < 0 or (vocab is not None and max(request.tokens) >= vocab):
            raise _refusal("the prompt holds token ids that are not in the model's vocabulary")

    def _generation_config(self, params: SamplingParams, offset: int) -> genai.GenerationConfig:
        config = genai.GenerationConfig()
        config.apply_chat_template = False
        config.max_new_tokens = params.max_tokens - offset
        self._set_ends(config, params, offset)
        if params.temperature > 0:
            config.do_sample = True
            config.temperature = params.temperature
            config.top_p = params.top_p
            config.min_p = params.min_p
            if params.top_k > 0:  # the default is the largest number, and means no limit
                config.top_k = params.top_k
        else:
            config.do_sample = False
        config.rng_seed = params.seed & _SEED_MASK
        config.repetition_penalty = params.repetition_penalty
        config.presence_penalty = params.presence_penalty
        config.frequency_penalty = params.frequency_penalty
        config.logprobs = 1 if params.logprobs else 0
        if params.guide is not None:
            config.structured_output_config = structured_output(params.guide)
        return config

    def _set_ends(
        self, config: genai.GenerationConfig, params: SamplingParams, offset: int
    ) -> None:
        vocab = self._vocab_size
        # an id beyond the vocabulary never comes, and masking it would write beyond the logits
        stop_ids = {id_ for id_ in params.stop_token_ids if id_ >= 0 and (not vocab or id_ < vocab)}
        config.ignore_eos = not stop_ids or self._hybrid
        if stop_ids:
            config.stop_token_ids = stop_ids
            config.eos_token_id = min(stop_ids)  # else the model's own EOS is added to the set
            left = max(0, params.min_tokens - offset)
            config.min_new_tokens = min(left, params.max_tokens - offset)
        if self._hybrid:
            config.max_new_tokens = max(_HYBRID_LEAST_TOKENS, params.max_tokens - offset)

    def _measure(self, used: int) -> None:
        """Find the block size from a first step that one sequence's prompt went through whole."""
        if self._hybrid or len(self._live) != 1:
            return
        (live,) = self._live.values()
        tokens = min(len(live.tokens), self._max_batched)
        fitting = [size for size in _BLOCK_SIZES if blocks_for(tokens, size) == used]
        if used and fitting and self._block_size not in fitting:
            self._block_size = fitting[0]


def _end(request: EngineRequest, word: str) -> Output:
    generation, attempt = request.key
    return Output(generation, attempt, request.offset, (), None, word)


def _refusal(message: str) -> RequestRefusedError:
    return RequestRefusedError(Problem(kind=ProblemKind.INVALID_REQUEST, message=message))
