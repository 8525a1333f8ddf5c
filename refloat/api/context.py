"""What HTTP needs from the rest of the gateway, as contracts, and the record that holds it."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from refloat.api.allowance import Allowance
from refloat.api.responses.store import ResponseStore
from refloat.config.key_rights import KeyRights
from refloat.config.schema import ServerConfig
from refloat.generation.events import Event
from refloat.generation.request import GenerationRequest, Prompt
from refloat.generation.streams import Streams
from refloat.observe.incidents import IncidentStore
from refloat.observe.metrics import Metrics
from refloat.supervisor.fleet import Fleet


class SessionPort(Protocol):
    """One accepted request, whose events are read by one reader."""

    @property
    def request(self) -> GenerationRequest: ...

    @property
    def model(self) -> str: ...

    @property
    def created(self) -> int:
        """Unix time."""
        ...

    @property
    def fingerprint(self) -> str: ...

    @property
    def prompt_tokens(self) -> int:
        """Of all prompts together."""
        ...

    @property
    def stream_id(self) -> str | None:
        """By which this stream can be asked for again, as long as it is kept; `None`: it cannot."""
        ...

    @property
    def after(self) -> int:
        """Ordinal of the event before the next one, for a stream with an id."""
        ...

    @property
    def is_attached(self) -> bool:
        """Another request began this generation."""
        ...

    @property
    def is_overrun(self) -> bool:
        """More is unread than may be: this reader is too slow."""
        ...

    async def next_events(self) -> Sequence[Event]:
        """The next events, at least one; exactly one terminal event, after which nothing is asked."""
        ...

    def hand_to(self, take: Callable[[Sequence[Event]], bool]) -> None:
        """While `next_events` waits, call `take` with what has come; what it does not take (it returns
        false then), and whatever comes with the terminal event, is for `next_events`."""
        ...

    def cancel(self) -> None:
        """Nobody wants the rest. Does nothing on an ended session."""
        ...


class GenerationsPort(Protocol):
    """Takes requests. Every method raises `ProblemError`."""

    async def submit(self, request: GenerationRequest) -> SessionPort:
        """Accept a request; may wait for a model. Cancel the task if the client leaves."""
        ...

    async def tokenize(self, model: str, prompt: Prompt, tenant: str) -> list[int]: ...

    async def detokenize(
        self, model: str, ids: Sequence[int], tenant: str, *, skip_special_tokens: bool = True
    ) -> str: ...


class LeasePort(Protocol):
    """Bytes promised out of the budget."""

    def close(self) -> None:
        """Give them back; a second call does nothing."""
        ...


class BudgetPort(Protocol):
    """The budget over everything that is held in memory."""

    def reserve(self, size_bytes: int, /) -> LeasePort:
        """Promise bytes. Raises `ProblemError` (OVERLOADED)."""
        ...


class ControlPort(Protocol):
    """What an operator may order."""

    def reset(self, model: str, *, accept_probe: bool) -> bool:
        """Forget a model's faults and try it again, now. Whether anything is started for that.

        Raises `ProblemError` for a model that cannot be tried again.
        """
        ...

    def drain(self, deadline_s: float | None) -> None:
        """Finish what runs within so many seconds (`None`: as the settings say), take nothing new, and
        end. Does nothing while that is under way."""
        ...


class NoControl:
    """Orders nothing: for a gateway without models of its own."""

    def reset(self, model: str, *, accept_probe: bool) -> bool:
        """Nothing is started."""
        return False

    def drain(self, deadline_s: float | None) -> None:
        """Nothing ends."""


_NO_CONTROL = NoControl()


@dataclass(frozen=True, slots=True)
class ApiContext:
    """Everything that handlers work with."""

    generations: GenerationsPort
    fleet: Fleet
    metrics: Metrics
    budget: BudgetPort
    settings: ServerConfig
    keys: frozenset[str] = frozenset()
    """Bearer keys; none: everybody may call."""
    rights: tuple[KeyRights, ...] = ()
    """Keys with rights of their own, beside those."""
    version: str = "0"
    control: ControlPort = _NO_CONTROL
    incidents: IncidentStore | None = None
    """Evidence of faults; `None`: none is kept."""
    streams: Streams | None = None
    """Those that are kept; `None`: none is."""
    responses: ResponseStore | None = None
    """Answers of `/responses`; `None`: none is kept."""
    allowance: Allowance = field(default_factory=Allowance)
    clock: Callable[[], float] = time.monotonic
