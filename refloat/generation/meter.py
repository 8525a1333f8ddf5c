"""One model's generation metrics: labels bound once, gauges read at the scrape, never kept in step."""

from collections.abc import Callable
from typing import NamedTuple

from refloat.generation.states import GenerationState
from refloat.observe.metrics import Metrics


class Levels(NamedTuple):
    """What the gauges show."""

    waiting: int
    running: int
    kv_blocks: int
    kv_blocks_used: int


class Meter:
    """Counts for one model."""

    def __init__(self, metrics: Metrics, model: str) -> None:
        self.ttft_seconds = metrics.ttft_seconds.labels(model)
        self.inter_token_seconds = metrics.inter_token_seconds.labels(model)
        self.generated_tokens = metrics.generated_tokens.labels(model)
        self.engine_steps = metrics.engine_steps.labels(model)
        self.prompt_tokens = metrics.prompt_tokens.labels(model)
        self.cached_tokens = metrics.cached_tokens.labels(model)
        self.aborted = metrics.aborted.labels(model)
        self.convictions = metrics.convictions.labels(model)
        self._preemptions = metrics.preemptions
        self._model = model
        self._ended = {
            state: metrics.generations.labels(model, state.value) for state in GenerationState
        }
        self._waiting = metrics.waiting.labels(model)
        self._running = metrics.running.labels(model)
        self._kv_blocks = metrics.kv_blocks.labels(model)
        self._kv_blocks_used = metrics.kv_blocks_used.labels(model)

    def show(self, levels: Callable[[], Levels]) -> None:
        """Read the gauges from here."""
        self._waiting.set_function(lambda: levels().waiting)
        self._running.set_function(lambda: levels().running)
        self._kv_blocks.set_function(lambda: levels().kv_blocks)
        self._kv_blocks_used.set_function(lambda: levels().kv_blocks_used)

    def ended(self, state: GenerationState) -> None:
        """A generation reached this terminal state."""
        self._ended[state].inc()

    def preempted(self, why: str) -> None:
        """A generation had to make room."""
        self._preemptions.labels(self._model, why).inc()
