"""Measures how long a pipeline's steps take with prompts, before anybody is served by it."""

import time
from itertools import count
from typing import NamedTuple

import numpy as np
import openvino as ov
import openvino_genai as genai

from refloat.engines.chunk import LEAST_CHUNK, Prefill, chunk_for
from refloat.engines.openvino_live import Handle

#: Sequences that run beside the prompts which are measured, if the cache has room for them.
_BESIDE = 8
_BLOCKS_BESIDE = 16
#: Tokens that each of them comes to at most.
_LENGTH_BESIDE, _PROMPT_BESIDE = 80, 8
_SMALL_TIMES = 3
#: Largest chunks of a prompt that are measured one after another, fewer where they would take longer
#: than that in all. The target holds for prompts twice as long: farther on a measurement's scatter
#: would decide.
_FEWEST, _CHUNKS, _LONGEST_S, _REACH = 2, 4, 4.0, 2
#: No request of anybody's has such an id.
_REQUEST_IDS = 1 << 40
#: Ids that every vocabulary has, far from those of control tokens.
_FIRST_ID, _IDS = 100, 100
#: A hybrid model's request that ends at one token spoils its prompt's cached state.
_NEW_TOKENS = 2


class Bounds(NamedTuple):
    """What a pipeline can do."""

    step_tokens: int
    seats: int
    blocks: int
    capacity: int
    """Tokens in its cache."""
    context: int
    """Tokens that a sequence may have; 0: as many as the cache holds."""


def measured_step(
    pipeline: genai.ContinuousBatchingPipeline, target_s: float, bounds: Bounds
) -> int:
    """Tokens of a step that keeps to `target_s` in which some sequences run and a prompt of up to four
    times `step_tokens` is computed (eight where steps are quick); at most `step_tokens`."""
    return _Trial(pipeline, bounds).step_tokens(target_s)


class _Trial:
    def __init__(self, pipeline: genai.ContinuousBatchingPipeline, bounds: Bounds) -> None:
        self._pipeline = pipeline
        self._numbers = count(_REQUEST_IDS)
        self._most = bounds.step_tokens
        self._beside = min(
            _BESIDE, bounds.seats - 1, bounds.blocks // _BLOCKS_BESIDE, bounds.step_tokens // 4
        )
        longest = bounds.capacity - self._beside * _LENGTH_BESIDE
        self._longest = max(1, min(bounds.context or longest, longest) - _NEW_TOKENS)

    def step_tokens(self, target_s: float) -> int:
        beside = [
            self._add(_PROMPT_BESIDE, _LENGTH_BESIDE - _PROMPT_BESIDE) for _ in range(self._beside)
        ]
        most = min(self._most - self._beside, self._longest)
        least = min(LEAST_CHUNK, most)
        # the fastest of some: kernels are built with the first, and others use the machine too
        small_s = min(self._prefill(least, 1)[0] for _ in range(_SMALL_TIMES))
        affordable = int(_LONGEST_S / (small_s / least * most))
        chunks = min(max(_FEWEST, min(_CHUNKS, affordable)), self._longest // most)
        seconds = self._prefill(most, chunks)
        for handle in beside:
            handle.cancel()
        while self._pipeline.has_non_finished_requests():
            self._pipeline.step()
        late = Prefill(most, seconds[-1], most * (chunks - 1)) if chunks > 1 else None
        chunk = chunk_for(
            target_s,
            Prefill(least, small_s),
            Prefill(most, min(seconds)),  # of the first one, unless that had kernels to build
            late,
            context=min(self._longest, _REACH * chunks * most),
        )
        return self._most if chunk == most else chunk + self._beside

    def _prefill(self, tokens: int, chunks: int) -> list[float]:
        """Seconds of each step of a prompt of so many chunks."""
        handle = self._add(tokens * chunks, _NEW_TOKENS)
        seconds: list[float] = []
        for _ in range(chunks):
            began_s = time.perf_counter()
            self._pipeline.step()
            seconds.append(time.perf_counter() - began_s)
        while handle.get_status() == genai.GenerationStatus.RUNNING:
            self._pipeline.step()
        return seconds

    def _add(self, tokens: int, new_tokens: int) -> Handle:
        number = next(self._numbers)
        config = genai.GenerationConfig()
        config.max_new_tokens = new_tokens
        config.ignore_eos = True
        config.apply_chat_template = False
        # another beginning each time: the prefix cache must not know it
        ids = [_FIRST_ID + (place * number + number) % _IDS for place in range(tokens)]
        prompt = ov.Tensor(np.array([ids], dtype=np.int64))
        return self._pipeline.add_request(number, prompt, config)  # pyright: ignore[reportUnknownMemberType]
