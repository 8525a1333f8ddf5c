"""A model's prep process as the gateway uses it: render, tokenize, detokenize, whatever the worker
does. Implements `generation.ports.PrepPort` by shape; the supervision itself is in `prep_program.py`.
"""

import asyncio
import itertools
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import msgspec

from refloat.supervisor.actor import SlotActor
from refloat.supervisor.child import ChildCommand
from refloat.supervisor.inbox import Order
from refloat.supervisor.knobs import Knobs
from refloat.supervisor.lifecycle import WorkerState
from refloat.supervisor.prep_jobs import Job
from refloat.supervisor.prep_program import PrepProgram
from refloat.supervisor.slot import Slot
from refloat.wire.frame import FrameError, encode_frame
from refloat.wire.guide import Guide, GuideRequest
from refloat.wire.messages import pack_ids, unpack_ids
from refloat.wire.prep_messages import (
    CheckGuide,
    Detokenize,
    FromPrep,
    Guided,
    GuideJob,
    MakeGuide,
    PrepConfigure,
    PrepReady,
    Render,
    ResumeGuide,
    Text,
    Tokenize,
    Tokens,
)
from refloat.wire.problem import Problem, ProblemError, ProblemKind, TooManyTokensError

_UNSERVABLE = frozenset({WorkerState.FAILED, WorkerState.STUCK})


class Renderable(Protocol):
    """A chat to be rendered by the model's template (`generation.request.ChatPrompt`)."""

    @property
    def messages(self) -> list[dict[str, Any]]: ...
    @property
    def tools(self) -> list[dict[str, Any]] | None: ...
    @property
    def template_kwargs(self) -> dict[str, Any]: ...
    @property
    def add_generation_prompt(self) -> bool: ...
    @property
    def continue_final_message(self) -> bool: ...


class PrepProcess:
    """Every call has a deadline, survives a restart of prep, and raises `ProblemError`. Tenants are
    served by turns."""

    def __init__(
        self,
        model: str,
        configure: PrepConfigure,
        knobs: Knobs,
        *,
        on_change: Callable[[], None],
    ) -> None:
        self._model = model
        self._wait_limit_s = knobs.prep_wait_limit_s
        self._on_change = on_change
        self._numbers = itertools.count(1)
        self._program = PrepProgram(configure, knobs, on_change=self._changed)
        command = ChildCommand(
            argv=knobs.prep_command,
            incoming=FromPrep,
            with_progress=False,
            max_pending_bytes=knobs.prep_pending_bytes,
        )
        self._actor = SlotActor(self._program, command, knobs, model=model)

    @property
    def ready_info(self) -> PrepReady | None:
        """What prep said of the tokenizer; stays when prep is restarted."""
        return self._program.ready_info

    @property
    def slot(self) -> Slot:
        """State, cause and process, to be read only."""
        return self._actor.slot

    async def render(
        self, prompt: Renderable, *, tenant: str = "", most: int | None = None
    ) -> list[int]:
        """The prompt ids of a rendered chat, untruncated. Raises `TooManyTokensError` beyond `most`."""
        message = Render(
            job=next(self._numbers),
            messages=prompt.messages,
            tools=prompt.tools,
            template_kwargs=prompt.template_kwargs,
            add_generation_prompt=prompt.add_generation_prompt,
            continue_final_message=prompt.continue_final_message,
            most=most,
        )
        [ids] = await self._ask_for_ids(tenant, message, "the chat template", 1)
        return ids

    async def tokenize(
        self,
        texts: Sequence[str],
        *,
        add_special_tokens: bool,
        tenant: str = "",
        most: int | None = None,
    ) -> list[list[int]]:
        """Ids of each text, untruncated. Raises `TooManyTokensError` if one has more than `most`."""
        message = Tokenize(next(self._numbers), list(texts), add_special_tokens, most)
        return await self._ask_for_ids(tenant, message, "tokenizing", len(texts))

    async def detokenize(
        self, ids: Sequence[int], *, skip_special_tokens: bool = True, tenant: str = ""
    ) -> str:
        """The text of these ids; bytes that are no UTF-8 become U+FFFD."""
        message = Detokenize(next(self._numbers), pack_ids(ids), skip_special_tokens)
        answer = await self._ask(tenant, message, "detokenizing")
        if not isinstance(answer, Text):
            raise self._nonsense()
        return answer.text

    async def make_guide(self, wish: GuideRequest, *, tenant: str = "") -> Guide:
        """The grammar of a wish, tried. Raises `ProblemError`: a 400 for what cannot be held or takes
        too much."""
        guide = await self._ask_for_guide(MakeGuide(next(self._numbers), wish), tenant)
        if guide is None:
            raise self._nonsense()
        return guide

    async def resume_guide(self, guide: Guide, emitted: str) -> Guide | None:
        """What a guide leaves for the rest of an answer; `None`: the text is none of its beginnings."""
        return await self._ask_for_guide(ResumeGuide(next(self._numbers), guide, emitted))

    async def check_guide(self, guide: Guide, text: str, *, is_whole: bool) -> bool:
        """Whether a text is what a guide allows; one that is not whole has only to begin so."""
        job = CheckGuide(next(self._numbers), guide, text, is_whole)
        return await self._ask_for_guide(job) is not None

    async def run(self) -> None:
        """Supervise until `stop`. Raises what broke."""
        try:
            await self._actor.run()
        finally:
            text = f"The model {self._model!r} is shutting down."
            self._program.fail_all(Problem(ProblemKind.DRAINING, text))

    async def stop(self, deadline_s: float) -> None:
        """End prep; returns once it is gone."""
        await self._actor.stop(deadline_s)

    def reset(self) -> None:
        """The operator says: try again."""
        self._actor.post(Order.RESET)

    # --- within ------------------------------------------------------------------------------------

    async def _ask_for_ids(
        self, tenant: str, message: Render | Tokenize, what: str, count: int
    ) -> list[list[int]]:
        answer = await self._ask(tenant, message, what)
        if isinstance(answer, Tokens) and answer.too_many is not None:
            raise TooManyTokensError(answer.too_many)
        if not isinstance(answer, Tokens) or len(answer.ids) != count:
            raise self._nonsense()
        try:
            return [unpack_ids(packed) for packed in answer.ids]
        except ValueError:
            raise self._nonsense() from None

    async def _ask_for_guide(self, message: GuideJob, tenant: str = "") -> Guide | None:
        answer = await self._ask(tenant, message, "making a grammar")
        if not isinstance(answer, Guided):
            raise self._nonsense()
        return answer.guide

    async def _ask(
        self, tenant: str, message: Render | Tokenize | Detokenize | GuideJob, what: str
    ) -> Tokens | Text | Guided:
        if self.slot.state in _UNSERVABLE or self.slot.is_stopping or self.slot.is_finished:
            raise self._unservable().raised()
        self._refuse_if_too_large(message)
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        job = Job(message.job, message, what, future, tenant)
        try:
            self._program.submit(job)
            async with asyncio.timeout(self._wait_limit_s):
                answer: Tokens | Text | Guided = await future
        except TimeoutError:
            raise self._too_late().raised() from None
        finally:
            self._program.give_up(job)
        return answer

    def _refuse_if_too_large(self, message: msgspec.Struct) -> None:
        try:
            encode_frame(message)
        except FrameError:
            text = "The prompt is too large to be prepared."
            raise ProblemError.of(ProblemKind.REQUEST_TOO_LARGE, text) from None

    def _changed(self) -> None:
        if self.slot.state in _UNSERVABLE:
            self._program.fail_all(self._unservable())
        self._on_change()

    def _unservable(self) -> Problem:
        if self.slot.is_stopping:
            return Problem(ProblemKind.DRAINING, f"The model {self._model!r} is shutting down.")
        fault = self.slot.fault
        why = "" if fault is None else f": {fault.reason}"
        return Problem(ProblemKind.MODEL_FAILED, f"The model {self._model!r} has failed{why}.")

    def _too_late(self) -> Problem:
        if self._program.is_serving:
            kind, text = ProblemKind.OVERLOADED, "is busy preparing other requests"
        elif self.ready_info is None:
            kind, text = ProblemKind.MODEL_LOADING, "is loading its tokenizer"
        else:
            kind, text = ProblemKind.MODEL_RECOVERING, "is restarting its tokenizer"
        return Problem(kind, f"The model {self._model!r} {text}.")

    def _nonsense(self) -> ProblemError:
        return ProblemError.of(
            ProblemKind.INTERNAL_ERROR, "The request was prepared wrongly; this is a server error."
        )
