"""From a request to a running session: wait for the model, tokenize, check, resolve, admit.

Everything that can be refused is refused here, before a single event. Until the session is
admitted, in one go and without waiting, nothing is held that a cancelled caller would leave behind.
"""

import asyncio
import itertools
from collections.abc import Callable, Iterator
from typing import NamedTuple, assert_never

from refloat.generation.answer_format import check_tools, reading_for
from refloat.generation.budget import ByteBudget
from refloat.generation.choice import ID_BYTES, Choice
from refloat.generation.dispatch import Dispatch
from refloat.generation.guides import GuideShelf
from refloat.generation.journal import Journal
from refloat.generation.outcome import deadline_exceeded
from refloat.generation.ports import PrepPort
from refloat.generation.prefix import PromptChain
from refloat.generation.request import (
    ChatPrompt,
    GenerationRequest,
    Prompt,
    TextPrompt,
    TokenPrompt,
    without_prompts,
)
from refloat.generation.resolve import (
    candidates,
    check_prompts,
    check_request,
    context_exceeded,
    params_for,
)
from refloat.generation.runaway import RunawayRules
from refloat.generation.seeds import draw_seed
from refloat.generation.session import Session
from refloat.generation.wishes import check_wish, wish_for
from refloat.parsing.pipeline import OutputPipeline
from refloat.parsing.vocabulary import Vocabulary
from refloat.supervisor.fleet import ModelFacts
from refloat.wire.guide import Guide
from refloat.wire.problem import ProblemError, ProblemKind, TooManyTokensError

#: Generation ids, unique in this process whichever model they are of.
_generations = itertools.count(1)

#: What a choice costs beyond its ids.
_CHOICE_BYTES = 4096


class _Times(NamedTuple):
    """Readings of the clock."""

    accepted_s: float
    hold_until_s: float
    deadline_s: float | None

    def left_s(self, now_s: float) -> float | None:
        """Seconds until the deadline; `None`: there is none."""
        return None if self.deadline_s is None else max(0.0, self.deadline_s - now_s)


class _Ready(NamedTuple):
    """A prompt as it is admitted."""

    ids: list[int]
    echo: str
    guide: Guide | None


class Intake:
    """Takes requests for one model."""

    def __init__(
        self,
        dispatch: Dispatch,
        prep: PrepPort,
        vocabulary: Callable[[], Vocabulary],
        budget: ByteBudget,
        stream_buffer_bytes: int = 1 << 20,
    ) -> None:
        """`vocabulary` is only asked once the model's facts are known; `stream_buffer_bytes` is what a
        reader may be behind."""
        self.model = dispatch.model
        self.dispatch = dispatch
        self._gate = dispatch.gate
        self._prep = prep
        self._guides = GuideShelf(prep)
        dispatch.resume_guides(prep, vocabulary)
        self._vocabulary = vocabulary
        self._budget = budget
        self._stream_buffer_bytes = stream_buffer_bytes

    async def submit(self, request: GenerationRequest) -> Session:
        """A session that has been admitted. Raises `ProblemError`.

        What is wrong with the request itself is said at once, even while the model recovers; only
        then it waits for the model, up to the hold time and never past its own deadline.
        """
        times = self._times(request)
        self.dispatch.check_tenant(request.tenant)
        self._gate.refuse_hopeless()
        if self._gate.facts is None:
            await self._gate.servable(times.hold_until_s)
        facts = self._known_facts()
        check_request(request, facts)
        check_tools(self.model, request.prompts, facts)
        check_wish(request, facts)
        try:
            async with asyncio.timeout(times.left_s(self.dispatch.clock())):
                prompts = [await self._counted(request, each, facts) for each in request.prompts]
                check_prompts(request, prompts, facts)
                pairs = list(zip(request.prompts, prompts, strict=True))
                ready = [await self._prepared(request, *pair, facts) for pair in pairs]
        except TimeoutError:
            raise deadline_exceeded().raised() from None
        await self._gate.servable(times.hold_until_s)
        facts = self._known_facts()
        check_prompts(request, prompts, facts)  # the cache of the next worker may be smaller
        if times.deadline_s is not None and self.dispatch.clock() >= times.deadline_s:
            raise deadline_exceeded().raised()
        return self._admit(request, ready, facts, times)

    async def tokenize(self, prompt: Prompt, tenant: str, *, most: int | None = None) -> list[int]:
        """Ids of one prompt, untruncated. Raises `ProblemError`; `TooManyTokensError` beyond `most`."""
        match prompt:
            case ChatPrompt():
                self._check_chat()
                return await self._prep.render(prompt, tenant=tenant, most=most)
            case TextPrompt(text, add_special_tokens):
                [ids] = await self._prep.tokenize(
                    [text], add_special_tokens=add_special_tokens, tenant=tenant, most=most
                )
                return ids
            case TokenPrompt(ids):
                return list(ids)
            case _:
                assert_never(prompt)

    async def detokenize(
        self, ids: list[int], tenant: str, *, skip_special_tokens: bool = True
    ) -> str:
        """Text of these ids. Raises `ProblemError`."""
        return await self._prep.detokenize(
            ids, skip_special_tokens=skip_special_tokens, tenant=tenant
        )

    async def _counted(
        self, request: GenerationRequest, prompt: Prompt, facts: ModelFacts
    ) -> list[int]:
        """Ids of a prompt, or the refusal of one that is longer than the context."""
        try:
            return await self.tokenize(prompt, request.tenant, most=facts.context_length)
        except TooManyTokensError as error:
            raise context_exceeded(request, error.count, facts.context_length) from None

    def _times(self, request: GenerationRequest) -> _Times:
        limits, now_s = self.dispatch.limits, self.dispatch.clock()
        allowed_s = request.deadline_s or limits.request_timeout_s
        if allowed_s is None:
            return _Times(now_s, now_s + limits.hold_timeout_s, None)
        return _Times(now_s, now_s + min(limits.hold_timeout_s, allowed_s), now_s + allowed_s)

    def _known_facts(self) -> ModelFacts:
        facts = self._gate.facts
        if facts is None:
            raise ProblemError.of(
                ProblemKind.MODEL_LOADING, f"The model {self.model!r} is loading."
            )
        return facts

    def _check_chat(self) -> None:
        facts = self._gate.facts
        if facts is not None and facts.chat_unavailable is not None:
            raise ProblemError.of(
                ProblemKind.CHAT_TEMPLATE_UNAVAILABLE,
                f"The model {self.model!r} cannot chat: {facts.chat_unavailable}",
            )

    async def _prepared(
        self, request: GenerationRequest, prompt: Prompt, ids: list[int], facts: ModelFacts
    ) -> _Ready:
        """What else an answer to this prompt needs."""
        guide = None
        if request.guide is not None:
            wish = wish_for(request.guide, prompt, ids, facts, self._vocabulary())
            guide = await self._guides.guide(wish, request.tenant)
        return _Ready(ids, await self._echo(request, prompt), guide)

    async def _echo(self, request: GenerationRequest, prompt: Prompt) -> str:
        """The prompt's text, if it is to be part of the answer."""
        if not request.echo:
            return ""
        if isinstance(prompt, TextPrompt):
            return prompt.text
        ids = await self.tokenize(prompt, request.tenant)
        return await self.detokenize(ids, request.tenant, skip_special_tokens=False)

    def _admit(
        self,
        request: GenerationRequest,
        prompts: list[_Ready],
        facts: ModelFacts,
        times: _Times,
    ) -> Session:
        """No `await` from here on: either all of it happens or none."""
        prompt_tokens = sum(len(prompt.ids) for prompt in prompts)
        count = len(prompts) * candidates(request)
        lease = self._budget.reserve(ID_BYTES * prompt_tokens + _CHOICE_BYTES * count)
        try:
            session = Session(
                request,
                model=self.model,
                fingerprint=facts.fingerprint,
                prompt_tokens=prompt_tokens,
                lease=lease,
                accepted_s=times.accepted_s,
                deadline_s=times.deadline_s,
                abandon=self.dispatch.abandon,
                max_unread_bytes=self._stream_buffer_bytes,
            )
            session.begin(tuple(self._choices(session, prompts, facts)))
            session.request = without_prompts(request)
            self.dispatch.admit(session)
        except BaseException:
            lease.close()
            raise
        return session

    def _rules(self) -> RunawayRules | None:
        limits = self.dispatch.limits
        if limits.max_generation_s is None and not limits.loop_guard_tokens:
            return None
        return RunawayRules(limits.max_generation_s, limits.loop_guard_tokens)

    def _choices(
        self, session: Session, prompts: list[_Ready], facts: ModelFacts
    ) -> Iterator[Choice]:
        request, vocabulary = session.request, self._vocabulary()
        said = request.sampling
        seed = said.seed if said.seed is not None else draw_seed()
        each = candidates(request)
        for prompt_index, (ids, echo, guide) in enumerate(prompts):
            prompt_chain = PromptChain(ids)
            for number in range(each):
                prompt = request.prompts[prompt_index]
                reading, shown = reading_for(prompt, ids, facts, vocabulary)
                if guide is not None:
                    shown = vocabulary.whole()
                yield Choice(
                    session,
                    Journal(
                        generation=next(_generations),
                        tenant=request.tenant,
                        index=prompt_index * each + number,
                        prompt=ids,
                        params=params_for(request, len(ids), number, seed, facts, guide),
                    ),
                    OutputPipeline(
                        shown,
                        stop=said.stop,
                        include_stop=said.include_stop_str_in_output,
                        logprobs=said.logprobs,
                        continues_text=guide is not None or not isinstance(prompt, ChatPrompt),
                        min_tokens=said.min_tokens,
                    ),
                    prompt_chain,
                    prompt_index=prompt_index,
                    shows_stop=said.include_stop_str_in_output and guide is None,
                    echo=echo,
                    rules=self._rules(),
                    reading=reading,
                )
