"""A stage for generations: real dispatch, intake, budget and pipelines between two stand-ins, a prep
that knows an alphabet and a replica that models an engine (steps, slots, blocks).

Answers are a function of prompt and position, so every text can be told in advance.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from refloat.generation.budget import ByteBudget
from refloat.generation.dispatch import Dispatch
from refloat.generation.events import ChoiceEnd, Completed, Delta, Event, Failed, FinishReason
from refloat.generation.intake import Intake
from refloat.generation.limits import Limits
from refloat.generation.request import (
    ChatPrompt,
    GenerationRequest,
    Prompt,
    Sampling,
    TokenPrompt,
)
from refloat.generation.session import Session
from refloat.kv.blocks import blocks_for
from refloat.models.manifest import SamplingDefaults
from refloat.observe.metrics import Metrics
from refloat.parsing.vocabulary import Vocabulary
from refloat.supervisor.fleet import (
    Availability,
    Fleet,
    ModelFacts,
    ModelSnapshot,
    Rebuild,
    ReplicaLoss,
)
from refloat.wire.faults import FaultKind
from refloat.wire.guide import Guide, GuideRequest
from refloat.wire.messages import (
    Add,
    CacheFacts,
    Cancel,
    Capabilities,
    Output,
    SamplingParams,
    Step,
    ToWorker,
    pack_ids,
    unpack_ids,
)
from refloat.wire.prep_messages import TokenTable
from refloat.wire.problem import Problem, ProblemError, ProblemKind, TooManyTokensError

LETTERS = "abcdefghijklmnopqrstuvwxyz"
#: A prompt that begins with this ends after as many tokens as its second id says.
ENDS_AT = 26
EOS = 27
VOCAB_SIZE = 28
MODEL = "m"


def token_at(prompt: Sequence[int], position: int) -> int:
    """What the engine says at this position."""
    if prompt[0] == ENDS_AT and position == prompt[1]:
        return EOS
    return (sum(prompt) * 7 + len(prompt) + position * 5 + position // 26) % 26


def text_of(prompt: Sequence[int], count: int) -> str:
    """Its first `count` tokens as text."""
    texts = (*LETTERS, " ", "")
    return "".join(texts[token_at(prompt, position)] for position in range(count))


def vocabulary() -> Vocabulary:
    texts = [*LETTERS, " ", "<end>"]
    blob = "".join(texts).encode()
    lengths = pack_ids([len(text) for text in texts])
    return Vocabulary.from_table(TokenTable(blob, lengths, special_ids=(EOS,)))


class Clock:
    """Stands still unless told to move."""

    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s

    def pass_s(self, seconds: float) -> None:
        self.now_s += seconds


class AlphabetPrep:
    """Stand-in for a prep process: a letter is a token."""

    def __init__(self) -> None:
        self.yields = 0
        """Times that each call lets the loop turn before it answers."""
        self.wishes: list[GuideRequest] = []
        self.guide_problem: Problem | None = None
        self.resumed: list[str] = []
        """Texts whose rest was asked for."""
        self.hopeless: set[str] = set()
        self.rest_problem: Problem | None = None
        """Why there is no grammar of the rest of anything."""
        self.checked: list[tuple[str, bool]] = []
        """Texts that were held to their guides, and whether they were whole."""
        self.is_right = True
        """What is said of them."""
        self.tenants: list[str] = []
        """Who asked, in order."""
        self.may_check = asyncio.Event()
        self.may_check.set()
        self.may_make = asyncio.Event()
        self.may_make.set()
        self.may_resume = asyncio.Event()
        self.may_resume.set()

    async def render(
        self, prompt: ChatPrompt, *, tenant: str = "", most: int | None = None
    ) -> list[int]:
        self.tenants.append(tenant)
        text = "".join(str(message["content"]) for message in prompt.messages)
        return (await self.tokenize([text], add_special_tokens=False, tenant=tenant, most=most))[0]

    async def make_guide(self, wish: GuideRequest, *, tenant: str = "") -> Guide:
        self.tenants.append(tenant)
        self.wishes.append(wish)
        await self.may_make.wait()
        if self.guide_problem is not None:
            raise self.guide_problem.raised()
        return Guide(f"root ::= {wish.text}")

    async def resume_guide(self, guide: Guide, emitted: str) -> Guide | None:
        self.resumed.append(emitted)
        await self.may_resume.wait()
        if self.rest_problem is not None:
            raise self.rest_problem.raised()
        return None if emitted in self.hopeless else Guide(f"{guide.ebnf} without {emitted}")

    async def check_guide(self, guide: Guide, text: str, *, is_whole: bool) -> bool:
        self.checked.append((text, is_whole))
        await self.may_check.wait()
        return self.is_right

    async def tokenize(
        self,
        texts: Sequence[str],
        *,
        add_special_tokens: bool,
        tenant: str = "",
        most: int | None = None,
    ) -> list[list[int]]:
        self.tenants.append(tenant)
        for _ in range(self.yields):
            await asyncio.sleep(0)
        for text in texts:
            if most is not None and len(text) > most:
                raise TooManyTokensError(len(text))
        return [[LETTERS.index(char) for char in text] for text in texts]

    async def detokenize(
        self, ids: Sequence[int], *, skip_special_tokens: bool = True, tenant: str = ""
    ) -> str:
        self.tenants.append(tenant)
        return "".join((*LETTERS, " ", "<end>")[token] for token in ids)


@dataclass
class _Sequence:
    prompt: list[int]
    position: int
    params: SamplingParams
    length: int
    is_cancelled: bool = False


class EngineReplica:
    """Stand-in for a ready worker and its engine. What no engine may be made to do fails the test."""

    def __init__(
        self,
        worker_id: int,
        *,
        cache: CacheFacts | None,
        capabilities: Capabilities,
        max_num_seqs: int,
    ) -> None:
        self.worker_id = worker_id
        self.cache = cache
        self.capabilities = capabilities
        self.max_num_seqs = max_num_seqs
        self.sent: list[ToWorker] = []
        self.running: dict[tuple[int, int], _Sequence] = {}
        self.is_dead = False
        self._step = 0
        self._seen: set[tuple[int, int]] = set()

    def send(self, message: ToWorker) -> None:
        if self.is_dead:
            return
        self.sent.append(message)
        if isinstance(message, Add):
            key = (message.generation, message.attempt)
            assert key not in self._seen, f"{key} was sent twice"
            self._seen.add(key)
            tokens = unpack_ids(message.tokens)
            assert message.offset < message.params.max_tokens, "nothing is left to generate"
            prompt = tokens[: len(tokens) - message.offset]
            said = [token_at(prompt, position) for position in range(message.offset)]
            assert tokens[len(prompt) :] == said, "resumed from something that was never said"
            self.running[key] = _Sequence(prompt, message.offset, message.params, len(tokens))
            assert len(self.running) <= self.capabilities.capacity
            staying = sum(not sequence.is_cancelled for sequence in self.running.values())
            assert staying <= self.max_num_seqs
        elif isinstance(message, Cancel):
            sequence = self.running.get((message.generation, message.attempt))
            if sequence is not None:
                sequence.is_cancelled = True

    @property
    def used_blocks(self) -> int:
        if self.cache is None:
            return 0
        size = self.cache.block_size
        return sum(blocks_for(sequence.length, size) for sequence in self.running.values())

    def outputs(self) -> list[Output]:
        """Advance everything by one token; what ended gives its blocks back after the step."""
        outputs: list[Output] = []
        for key, sequence in self.running.items():
            if sequence.is_cancelled:
                outputs.append(Output(*key, sequence.position, (), None, "cancelled"))
                continue
            token = token_at(sequence.prompt, sequence.position)
            position = sequence.position
            sequence.position += 1
            sequence.length += 1
            ended = "length" if sequence.position >= sequence.params.max_tokens else None
            if token in sequence.params.stop_token_ids:
                ended = "stop"
            if self.capabilities.hybrid and sequence.position < 2:
                ended = None  # such an engine never ends at one token
            logprobs = (-0.1 * token,) if sequence.params.logprobs else None
            outputs.append(Output(*key, position, (token,), logprobs, ended))
        if self.cache is not None:
            assert self.used_blocks <= self.cache.num_blocks, "the cache is over-admitted"
        for output in outputs:
            if output.ended is not None:
                del self.running[output.generation, output.attempt]
        return outputs

    def step(self) -> Step:
        self._step += 1
        return Step(self._step, tuple(self.outputs()))

    @property
    def adds(self) -> list[Add]:
        return [message for message in self.sent if isinstance(message, Add)]

    @property
    def cancels(self) -> list[Cancel]:
        return [message for message in self.sent if isinstance(message, Cancel)]


@dataclass
class Answer:
    """Everything a client was told."""

    events: list[Event] = field(default_factory=list[Event])

    @property
    def terminal(self) -> Event:
        terminals = [event for event in self.events if isinstance(event, Completed | Failed)]
        assert len(terminals) == 1, self.events
        assert self.events[-1] is terminals[0], self.events
        return terminals[0]

    @property
    def problem(self) -> Problem:
        assert isinstance(self.terminal, Failed), self.terminal
        return self.terminal.problem

    @property
    def completed(self) -> Completed:
        assert isinstance(self.terminal, Completed), self.terminal
        return self.terminal

    def text(self, index: int = 0) -> str:
        return "".join(e.text for e in self.events if isinstance(e, Delta) and e.index == index)

    def reasons(self) -> dict[int, FinishReason]:
        ends = [event for event in self.events if isinstance(event, ChoiceEnd)]
        assert len({end.index for end in ends}) == len(ends), "a choice ended twice"
        return {end.index: end.reason for end in ends}


class Stage:
    """One model, whole, but for its processes."""

    def __init__(
        self,
        *,
        limits: Limits | None = None,
        blocks: int | None = 64,
        block_size: int = 4,
        max_num_seqs: int = 8,
        capabilities: Capabilities | None = None,
        context_length: int = 200,
        budget_bytes: int = 1 << 30,
        **facts: Any,
    ) -> None:
        self.clock = Clock()
        self.fleet = Fleet()
        self.metrics = Metrics()
        self.capabilities = capabilities or Capabilities()
        self.cache = CacheFacts(block_size, blocks) if blocks else None
        self.max_num_seqs = max_num_seqs
        self.facts = ModelFacts(
            context_length=context_length,
            vocab_size=VOCAB_SIZE,
            eos_token_ids=(EOS,),
            bos_token_id=None,
            sampling=SamplingDefaults(),
            fingerprint="fp",
            capabilities=self.capabilities,
            cache=self.cache,
            max_num_seqs=max_num_seqs,
            max_output_tokens=None,
        )
        self.facts = replace(self.facts, **facts)
        self.limits = limits or Limits()
        self.dispatch = Dispatch(MODEL, self.fleet, self.limits, self.metrics, self.clock)
        self.prep = AlphabetPrep()
        self.budget = ByteBudget(budget_bytes)
        self.intake = Intake(self.dispatch, self.prep, vocabulary, self.budget)
        self.replica: EngineReplica | None = None
        self._worker_ids = iter(range(1, 1000))
        self._requests = 0

    # --- what supervision does --------------------------------------------------------------------

    def publish(self, availability: Availability, **more: Any) -> None:
        facts = more.pop("facts", self.facts)
        snapshot = ModelSnapshot(MODEL, 0, availability, (), facts, **more)
        self.fleet.publish(snapshot)
        self.dispatch.model_changed(snapshot)

    def ready(self, **changes: Any) -> EngineReplica:
        """A worker comes up."""
        known: dict[str, Any] = {
            "cache": self.cache,
            "capabilities": self.capabilities,
            "max_num_seqs": self.max_num_seqs,
        }
        self.replica = EngineReplica(next(self._worker_ids), **(known | changes))
        self.publish(Availability.READY)
        self.dispatch.replica_ready(self.replica)
        return self.replica

    def lose(self, availability: Availability = Availability.RECOVERING, **more: Any) -> Rebuild:
        """The worker is killed by somebody else, as its supervisor tells it."""
        return self.lose_by(
            ReplicaLoss(FaultKind.DEATH, "killed", is_external=True), availability, **more
        )

    def fault(self, *batch: int) -> Rebuild:
        """The worker dies in a step of these generations."""
        return self.lose_by(ReplicaLoss(FaultKind.STEP_FAULT, "raised", batch))

    def lose_by(
        self,
        loss: ReplicaLoss,
        availability: Availability = Availability.RECOVERING,
        **more: Any,
    ) -> Rebuild:
        replica, self.replica = self.replica, None
        assert replica is not None
        replica.is_dead = True
        self.publish(availability, **more)
        return self.dispatch.replica_lost(replica.worker_id, loss)

    def step(self, times: int = 1) -> None:
        for _ in range(times):
            assert self.replica is not None
            self.dispatch.replica_step(self.replica.worker_id, self.replica.step())

    def tell(self, *outputs: Output) -> None:
        """A frame with these outputs, whatever the engine did."""
        assert self.replica is not None
        self.dispatch.replica_step(self.replica.worker_id, Step(0, outputs))

    def run_dry(self) -> None:
        """Step until nothing runs and nothing waits that could."""
        for _ in range(10_000):
            if self.replica is None or not self.replica.running:
                return
            self.step()
        raise AssertionError("does not end")

    # --- what clients do --------------------------------------------------------------------------

    def request(
        self, *prompts: Prompt | Iterable[int], max_tokens: int | None = 4, **more: Any
    ) -> GenerationRequest:
        self._requests += 1
        tenant = more.pop("tenant", "t")
        names = {name: more.pop(name) for name in list(more) if name in Sampling.__struct_fields__}
        asked = [p if isinstance(p, Prompt) else TokenPrompt(tuple(p)) for p in prompts]
        return GenerationRequest(
            request_id=f"r{self._requests}",
            tenant=tenant,
            model=MODEL,
            prompts=tuple(asked) or (TokenPrompt((1, 2, 3)),),
            sampling=Sampling(max_tokens=max_tokens, **names),
            prompt_param=more.pop("prompt_param", "prompt"),
            **more,
        )

    async def submit(self, *prompts: Prompt | Iterable[int], **more: Any) -> Session:
        return await self.intake.submit(self.request(*prompts, **more))

    async def refusal(self, *prompts: Prompt | Iterable[int], **more: Any) -> Problem:
        with pytest.raises(ProblemError) as caught:
            await self.submit(*prompts, **more)
        return caught.value.problem

    async def read(self, session: Session) -> Answer:
        """All events up to the terminal one, which has to be there already."""
        answer = Answer()
        async with asyncio.timeout(5):
            while not answer.events or not isinstance(answer.events[-1], Completed | Failed):
                answer.events += await session.next_events()
        return answer

    async def finish(self, session: Session) -> Answer:
        """Run the engine until nothing is left, then read."""
        self.run_dry()
        return await self.read(session)

    # --- what everybody may ask -------------------------------------------------------------------

    def metric(self, name: str, **labels: str) -> float:
        value = self.metrics.registry.get_sample_value(name, {"model": MODEL, **labels})
        return 0.0 if value is None else value

    def assert_clean(self) -> None:
        """Nothing runs, waits, or is held for anybody."""
        assert self.dispatch.idle
        assert self.budget.held_bytes == 0
        for gauge in ("refloat_waiting", "refloat_running", "refloat_kv_blocks_used"):
            assert self.metric(gauge) == 0, gauge


StageFactory = Callable[..., Stage]


@pytest.fixture
def stage_of() -> type[Stage]:
    """Makes stages; the model is loading until `ready` is called."""
    return Stage


@pytest.fixture
def stage() -> Stage:
    """A stage with a ready worker."""
    made = Stage()
    made.ready()
    return made


__all__ = ["EOS", "LETTERS", "ProblemKind", "Stage", "text_of", "token_at"]
