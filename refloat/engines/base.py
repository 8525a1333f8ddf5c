"""The engine contract: ids in, ids out. What an engine must do, and nothing of how.

An engine lives in a worker process and is driven by one thread. It knows nothing of text, HTTP,
queues or other requests' owners. Its keys are `(generation, attempt)` and are never reused.
"""

from collections.abc import Callable
from typing import NamedTuple, Protocol, runtime_checkable

from refloat.wire.messages import CacheFacts, Capabilities, EngineSpec, Output, SamplingParams
from refloat.wire.problem import Problem


class RequestKey(NamedTuple):
    """Names one attempt at one generation."""

    generation: int
    attempt: int


#: The worker's own probe; no generation has this key.
PROBE_KEY = RequestKey(0, 0)


class EngineRequest(NamedTuple):
    """One sequence to run."""

    key: RequestKey
    tokens: list[int]
    """Prompt ids followed by the `offset` ids emitted by earlier attempts."""
    offset: int
    params: SamplingParams


class RequestRefusedError(Exception):
    """`add` would not take this request; the engine is as healthy as before."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.message)
        self.problem = problem


class LoadError(Exception):
    """The engine could not be built. `permanent`: a second try would fail the same way."""

    def __init__(self, message: str, *, permanent: bool, out_of_memory: bool = False) -> None:
        super().__init__(message)
        self.permanent = permanent
        self.out_of_memory = out_of_memory


class EngineFaultError(Exception):
    """A step (or an add) failed and the engine's state can no longer be trusted."""

    def __init__(self, message: str, *, context_fatal: bool) -> None:
        super().__init__(message)
        self.context_fatal = context_fatal


class StepResult(NamedTuple):
    """What one step brought."""

    outputs: list[Output]
    used_blocks: int
    """-1 where the engine has no figure."""


class Engine(Protocol):
    """One model on one device. Every method may block for as long as the device does."""

    capabilities: Capabilities

    def load(self, spec: EngineSpec) -> None:
        """Build the engine. Raises `LoadError`."""
        ...

    def add(self, request: EngineRequest) -> None:
        """Take a sequence; it advances from the next step on. Raises `RequestRefusedError`."""
        ...

    def step(self) -> StepResult:
        """Advance every sequence that can. Raises `EngineFaultError`."""
        ...

    def cancel(self, key: RequestKey) -> None:
        """Give up a sequence; its blocks come back after the next step. Unknown keys do nothing."""
        ...

    def has_work(self) -> bool:
        """Whether a step would have something to do (freeing a cancelled sequence counts)."""
        ...

    def cache(self) -> CacheFacts | None:
        """The KV cache; exact only after a first step has made the engine allocate it."""
        ...


@runtime_checkable
class Wedgeable(Protocol):
    """An engine that can be brought into a state from which it is known never to recover."""

    def wedge(self, *, by_grammar: bool) -> None:
        """Do so, in one of two ways: every later step raises. Only fault plans ask for it."""
        ...


EngineFactory = Callable[[], Engine]
