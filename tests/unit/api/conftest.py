"""A gateway without workers: the real HTTP stack on a loopback socket over generations from memory."""

import asyncio
import threading
import time
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from refloat.api.asgi import build_asgi
from refloat.api.context import ApiContext
from refloat.api.server import HttpServer, bind, build_server
from refloat.config.key_rights import KeyRights
from refloat.config.schema import ServerConfig
from refloat.generation.budget import ByteBudget
from refloat.generation.events import ChoiceEnd, Completed, Delta, Event, FinishReason, Usage
from refloat.generation.request import GenerationRequest, Prompt
from refloat.models.manifest import SamplingDefaults
from refloat.observe.incidents import IncidentStore
from refloat.observe.metrics import Metrics
from refloat.parsing.pipeline import TokenLogprob
from refloat.supervisor.fleet import Availability, Fleet, ModelFacts, ModelSnapshot
from refloat.wire.messages import Capabilities
from refloat.wire.problem import Problem, ProblemError, ProblemKind

DEADLINE_S = 20.0
PIECES = ("Hel", "lo ", "Zürich ", "東京\u2028", "🚲!")

Script = Callable[[GenerationRequest], list[list[Event]]]


class FakeSession:
    """Plays batches of events; further ones can be put in from any thread."""

    model = "m"
    created = 1_700_000_000
    fingerprint = "fp_test"
    stream_id: str | None = None
    after = prompt_tokens = 0
    is_attached = is_overrun = False

    def __init__(self, request: GenerationRequest, batches: list[list[Event]]) -> None:
        self.request = request
        self.ended = threading.Event()
        self._loop = asyncio.get_running_loop()
        self._queue: asyncio.Queue[list[Event] | Exception] = asyncio.Queue()
        for batch in batches:
            self._queue.put_nowait(batch)

    async def next_events(self) -> Sequence[Event]:
        batch = await self._queue.get()
        if isinstance(batch, Exception):
            raise batch
        return batch

    def hand_to(self, take: Callable[[Sequence[Event]], bool]) -> None:
        """Everything goes by `next_events`."""

    def put(self, batch: list[Event] | Exception) -> None:
        self._loop.call_soon_threadsafe(self._queue.put_nowait, batch)

    def cancel(self) -> None:
        self.ended.set()


def deltas_of(request: GenerationRequest, index: int) -> list[Event]:
    """The standard answer of one choice."""
    events: list[Event] = []
    for number, piece in enumerate(PIECES):
        logprobs: tuple[TokenLogprob, ...] = ()
        if request.sampling.logprobs:
            raw = piece.encode()
            # a token may end inside a character, and a masked one has no finite log-probability
            logprobs = (
                TokenLogprob(2 * number, raw[:-1], -0.5),
                TokenLogprob(2 * number + 1, raw[-1:], float("-inf")),
            )
        events.append(Delta(index, piece, logprobs))
    return events


def standard_answer(request: GenerationRequest) -> list[list[Event]]:
    """Every choice says the same, interleaved, and stops."""
    count = len(request.prompts) * request.n
    columns = [deltas_of(request, index) for index in range(count)]
    batches = [[column[step] for column in columns] for step in range(len(PIECES))]
    ends: list[Event] = [ChoiceEnd(index, FinishReason.STOP) for index in range(count)]
    usage = Usage(prompt_tokens=7, completion_tokens=5 * count, cached_tokens=3)
    return [*batches, [*ends, Completed(usage)]]


@dataclass
class FakeGenerations:
    """What the api sees of the generations, from memory."""

    script: Script = standard_answer
    problem: Problem | None = None
    """Refuse with this."""
    error: Exception | None = None
    holds: bool = False
    """Never answer a submit; `cancelled` is set when its caller gives up."""
    submitted: threading.Event = field(default_factory=threading.Event)
    cancelled: threading.Event = field(default_factory=threading.Event)
    sessions: list[FakeSession] = field(default_factory=list[FakeSession])
    prompts: list[Prompt] = field(default_factory=list[Prompt])

    async def submit(self, request: GenerationRequest) -> FakeSession:
        if self.problem is not None:
            raise self.problem.raised()
        if self.error is not None:
            raise self.error
        self.submitted.set()
        if self.holds:
            try:
                await asyncio.get_running_loop().create_future()
            finally:
                self.cancelled.set()
        session = FakeSession(request, self.script(request))
        self.sessions.append(session)
        return session

    async def tokenize(self, model: str, prompt: Prompt, tenant: str) -> list[int]:
        self.prompts.append(prompt)
        if self.problem is not None:
            raise self.problem.raised()
        return [1, 2, 3]

    async def detokenize(
        self, model: str, ids: Sequence[int], tenant: str, *, skip_special_tokens: bool = True
    ) -> str:
        return " ".join(str(i) for i in ids)

    def says(self, *batches: list[Event]) -> None:
        """Answer every request with these events."""
        self.script = lambda request: list(batches)

    @property
    def last(self) -> FakeSession:
        return self.sessions[-1]

    def reset(self) -> None:
        self.script, self.problem, self.error, self.holds = standard_answer, None, None, False
        self.submitted.clear()
        self.cancelled.clear()
        self.sessions.clear()
        self.prompts.clear()


def snapshot(name: str = "m", state: Availability = Availability.READY, **more: Any) -> Any:
    """A model in some state."""
    facts = ModelFacts(
        context_length=4096,
        vocab_size=2048,
        eos_token_ids=(2,),
        bos_token_id=1,
        sampling=SamplingDefaults(),
        fingerprint="fp_test",
        capabilities=Capabilities(),
        cache=None,
        max_num_seqs=8,
        max_output_tokens=None,
    )
    known: dict[str, Any] = {"created": 1_700_000_000, "workers": (), "facts": facts, **more}
    return ModelSnapshot(name=name, availability=state, **known)


@dataclass
class FakeControl:
    """Remembers what was ordered; `m` can be reset, `gone` cannot."""

    orders: list[tuple[str, bool]] = field(default_factory=list[tuple[str, bool]])
    drains: list[float | None] = field(default_factory=list[float | None])

    def drain(self, deadline_s: float | None) -> None:
        self.drains.append(deadline_s)

    def reset(self, model: str, *, accept_probe: bool) -> bool:
        if model == "gone":
            raise ProblemError.of(ProblemKind.CONFLICT, "never fetched")
        self.orders.append((model, accept_probe))
        return True


@dataclass
class Gateway:
    """A server in a thread, and all that can be pulled at."""

    context: ApiContext
    generations: FakeGenerations
    budget: ByteBudget
    fleet: Fleet
    metrics: Metrics
    port: int = 0
    server: HttpServer | None = None
    thread: threading.Thread | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def settle(self) -> None:
        """Wait until the server is done with every request: an answer comes before its last line."""
        assert self.server is not None
        end_s = time.monotonic() + DEADLINE_S
        while self.server.server_state.tasks:
            assert time.monotonic() < end_s, "requests are still under way"
            threading.Event().wait(0.001)

    def count(self, metric: str, **labels: str) -> float:
        self.settle()
        return self.metrics.registry.get_sample_value(metric, labels) or 0.0


def make_gateway(
    settings: ServerConfig | None = None,
    *,
    keys: Sequence[str] = (),
    rights: tuple[KeyRights, ...] = (),
    incidents: IncidentStore | None = None,
) -> Gateway:
    """Everything but the server."""
    metrics, fleet, generations = Metrics(), Fleet(), FakeGenerations()
    settings = settings or ServerConfig()
    budget = ByteBudget(settings.memory_budget_bytes, metrics.held_bytes)
    fleet.publish(snapshot())
    context = ApiContext(
        generations=generations,
        fleet=fleet,
        metrics=metrics,
        budget=budget,
        settings=settings,
        keys=frozenset(keys),
        rights=rights,
        version="1.2.3",
        control=FakeControl(),
        incidents=incidents,
    )
    return Gateway(context, generations, budget, fleet, metrics)


def start(gateway: Gateway) -> Gateway:
    """Serve in a thread of its own."""
    sock = bind("127.0.0.1", 0)
    sock.listen()  # callers may come before the loop turns
    gateway.port = sock.getsockname()[1]
    server = build_server(build_asgi(gateway.context), gateway.metrics, shutdown_grace_s=1)
    gateway.server = server
    gateway.thread = threading.Thread(target=lambda: server.run(sockets=[sock]), daemon=True)
    gateway.thread.start()
    return gateway


def stop(gateway: Gateway) -> None:
    """Leave nothing behind."""
    assert gateway.server is not None
    assert gateway.thread is not None
    gateway.server.should_exit = True
    gateway.thread.join(DEADLINE_S)
    assert not gateway.thread.is_alive()


@pytest.fixture(scope="module")
def _shared_gateway() -> Generator[Gateway]:
    gateway = start(make_gateway())
    yield gateway
    stop(gateway)


@pytest.fixture
def gateway(_shared_gateway: Gateway) -> Gateway:
    """The standard gateway, reset."""
    _shared_gateway.generations.reset()
    _shared_gateway.fleet.publish(snapshot())
    return _shared_gateway


@pytest.fixture
def gateway_with() -> Generator[Callable[..., Gateway]]:
    """Makes gateways with other settings."""
    made: list[Gateway] = []

    def make(
        *,
        keys: Sequence[str] = (),
        rights: tuple[KeyRights, ...] = (),
        incidents: IncidentStore | None = None,
        **settings: Any,
    ) -> Gateway:
        gateway = start(
            make_gateway(ServerConfig(**settings), keys=keys, rights=rights, incidents=incidents)
        )
        made.append(gateway)
        return gateway

    yield make
    for gateway in made:
        stop(gateway)


@pytest.fixture
def new_snapshot() -> Callable[..., ModelSnapshot]:
    """Makes models in some state."""
    return snapshot
