"""Measures how long a pipeline's steps take with prompts, before anybody is served by it."""

import time

import numpy as np
import openvino as ov
import openvino_genai as genai

from refloat.engines.chunk import LEAST_CHUNK, Prefill, chunk_for
from refloat.engines.openvino_live import Handle

_TIMES = 3
#: No request of anybody's has such an id.
_REQUEST_IDS = 1 << 40
#: Ids that every vocabulary has, far from those of control tokens.
_FIRST_ID, _IDS = 100, 100
#: A hybrid model's request that ends at one token spoils its prompt's cached state.
_NEW_TOKENS = 2


def measured_chunk(
    pipeline: genai.ContinuousBatchingPipeline, target_s: float, most_tokens: int
) -> int:
    """Prompt tokens that this pipeline computes in `target_s`, at most `most_tokens`."""
    small = _prefill(pipeline, min(LEAST_CHUNK, most_tokens), first_request=_REQUEST_IDS)
    large = _prefill(pipeline, most_tokens, first_request=_REQUEST_IDS + _TIMES)
    return chunk_for(target_s, small, large)


def _prefill(
    pipeline: genai.ContinuousBatchingPipeline, count: int, *, first_request: int
) -> Prefill:
    """The fastest of some: kernels are built with the first, and others use the machine too."""
    seconds: list[float] = []
    for number in range(first_request, first_request + _TIMES):
        config = genai.GenerationConfig()
        config.max_new_tokens = _NEW_TOKENS
        config.ignore_eos = True
        config.apply_chat_template = False
        # another beginning each time: the prefix cache must not know it
        ids = [_FIRST_ID + (place * number + number) % _IDS for place in range(count)]
        tokens = ov.Tensor(np.array([ids], dtype=np.int64))
        handle: Handle = pipeline.add_request(number, tokens, config)  # pyright: ignore[reportUnknownMemberType]
        began_s = time.perf_counter()
        pipeline.step()
        seconds.append(time.perf_counter() - began_s)
        while pipeline.has_non_finished_requests():
            pipeline.step()
        del handle
    return Prefill(count, min(seconds))
