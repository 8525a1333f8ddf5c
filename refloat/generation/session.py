"""One client request under way: its choices, and the one stream of events that its client reads.

Exactly one terminal event (`Completed` or `Failed`) is ever put in, also when the client leaves.
Knows nothing of workers or queues: what a departure means there is the owner's affair.
"""

import asyncio
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from refloat.generation.budget import Lease
from refloat.generation.doorbell import Doorbell
from refloat.generation.events import (
    ChoiceEnd,
    Completed,
    Delta,
    Event,
    Failed,
    FinishReason,
    Parsed,
    Usage,
    part_bytes,
)
from refloat.generation.holding import Holding
from refloat.generation.ranking import Ranking
from refloat.generation.replay import EVENT_BYTES, LOGPROB_BYTES, event_bytes
from refloat.generation.request import GenerationRequest
from refloat.generation.runaway import Cut
from refloat.parsing.parts import Content, Part, Reasoning
from refloat.parsing.pipeline import TokenLogprob
from refloat.wire.problem import Problem, ProblemKind

if TYPE_CHECKING:
    from refloat.generation.choice import Choice

#: How long more may be unread than may be.
_PATIENCE_S = 0.5


class Session:
    """What the api holds. One reader; `next_events` until a terminal event, `cancel` at any time."""

    def __init__(
        self,
        request: GenerationRequest,
        *,
        model: str,
        fingerprint: str,
        prompt_tokens: int,
        lease: Lease,
        accepted_s: float,
        deadline_s: float | None,
        abandon: Callable[["Session"], None],
        max_unread_bytes: int = 1 << 20,
    ) -> None:
        """`accepted_s` and `deadline_s` are readings of the owner's monotonic clock. A reader with
        more than `max_unread_bytes` to read for a moment is too slow: the request ends."""
        self.request = request
        self.model = model
        self.created = int(datetime.now(UTC).timestamp())
        """Unix time of acceptance."""
        self.fingerprint = fingerprint
        self.prompt_tokens = prompt_tokens
        """Of all prompts together, each counted once however many choices it has."""
        self.lease = lease
        self.accepted_s = accepted_s
        self.deadline_s = deadline_s
        self.admitted_s = accepted_s
        """When it joined the line; later than acceptance if it waited for the model."""
        self.choices: tuple[Choice, ...] = ()
        self._abandon = abandon
        self._open = 0
        self._cached: dict[int, int] = {}
        self._pending: list[Event] = []
        self._unread_bytes = 0
        self._max_unread_bytes = max_unread_bytes
        self._patience: asyncio.TimerHandle | None = None
        self._bell = Doorbell()
        self._sink: Callable[[Event, int], None] | None = None
        self.stream_id: str | None = None
        """Nobody can ask for it again; see `kept.py` for those that can."""
        self.after = 0
        self.is_attached = False
        self.is_overrun = False
        """It has ended because its reader was too slow."""
        best_of = request.best_of or request.n
        self._ranking = Ranking(request.n) if best_of > request.n else None
        holds = request.holds_guided and request.guide is not None
        self._holding = Holding(lease) if holds else None
        self._say = self._put if self._holding is None else self._holding.add
        self.terminal: Completed | Failed | None = None
        """Set once, when the terminal event was put in (it may not have been read yet)."""
        self._is_read = False

    # --- for the client's side --------------------------------------------------------------------

    @property
    def cached_tokens(self) -> int:
        """Prompt tokens that the prefix cache held, by our own account."""
        return sum(self._cached.values())

    @property
    def tokens_emitted(self) -> int:
        """Tokens generated so far, over all choices."""
        return sum(len(choice.journal.emitted) for choice in self.choices)

    @property
    def has_events(self) -> bool:
        """Whether `next_events` would return at once."""
        return bool(self._pending)

    async def next_events(self) -> list[Event]:
        """All events that are there, at least one. Cancelling the wait loses none.

        Raises `RuntimeError` once the terminal event has been returned, or after `cancel`.
        """
        while not self._pending:
            if self._is_read:
                raise RuntimeError("the terminal event of this session has been read already")
            await self._bell.wait()
        events = self._pending
        self._forget_read()
        if self.terminal is not None:
            self._is_read = True
            self.lease.close()
        return events

    def hand_to(self, take: Callable[[Sequence[Event]], bool]) -> None:
        """While `next_events` waits, call `take` with what has come; what it does not take (it returns
        false then), and whatever comes with the terminal event, is for `next_events`."""
        self._bell.answer_by(lambda: self._hand(take))

    def cancel(self) -> None:
        """The client has gone: nothing of this request runs or is held any longer. Idempotent."""
        if self.terminal is None:
            self._abandon(self)
            self._pending.clear()
            self.fail(Problem(ProblemKind.CLIENT_CLOSED, "The client closed the connection."))
        elif not self._is_read and not self._bell.is_awaited:
            self._pending.clear()
            self._is_read = True
        self.lease.close()

    def record(self, sink: Callable[[Event, int], None]) -> None:
        """Give every event, those that are there first, to `sink` with its bytes; nobody reads here
        then, and the bytes are the sink's affair."""
        events = self._pending
        self._forget_read()
        self._sink = sink
        for event in events:
            sink(event, event_bytes(event))
        if self.terminal is not None:
            self.lease.close()

    # --- for the owner ----------------------------------------------------------------------------

    def begin(self, choices: tuple["Choice", ...]) -> None:
        """These are its choices; each has to end once."""
        self.choices = choices
        self._open = len(choices)

    def note_cached(self, prompt_index: int, tokens: int) -> None:
        """How much of a prompt was cached when it was first computed; later ones do not count."""
        self._cached.setdefault(prompt_index, tokens)

    def deliver(
        self,
        choice: "Choice",
        text: str,
        logprobs: tuple[TokenLogprob, ...],
        kept_bytes: int = 0,
    ) -> None:
        """Final text of a choice; may be empty. `kept_bytes`: what its journal grew by meanwhile."""
        self.lease.adjust(kept_bytes)
        if self._ranking is not None:
            self._ranking.add(choice.journal.generation, choice.prompt_index, text, logprobs)
            size_bytes = len(text) + LOGPROB_BYTES * len(logprobs)
            self._unread_bytes += size_bytes
            self.lease.adjust(size_bytes)
        elif text or logprobs:
            if choice.echo:
                echo, choice.echo = choice.echo, ""
                self._put(Delta(choice.journal.index, echo), len(echo))
            size_bytes = len(text) + LOGPROB_BYTES * len(logprobs) if logprobs else len(text)
            self._say(Delta(choice.journal.index, text, logprobs), size_bytes)

    def deliver_parts(
        self,
        choice: "Choice",
        parts: Sequence[Part],
        logprobs: tuple[TokenLogprob, ...],
        kept_bytes: int = 0,
    ) -> None:
        """As `deliver`, of a choice whose text is parsed. Log-probabilities of all tokens come with
        text, whatever the tokens were part of."""
        if logprobs and not (len(parts) == 1 and isinstance(parts[0], Content)):
            self.deliver(choice, "", logprobs, kept_bytes)
            logprobs, kept_bytes = (), 0
        self.lease.adjust(kept_bytes)
        index = choice.journal.index
        for part in parts:
            if isinstance(part, Content):
                self.deliver(choice, part.text, logprobs)
            else:
                say = self._put if isinstance(part, Reasoning) else self._say
                say(Parsed(index, part), part_bytes(part))

    def end_choice(
        self,
        choice: "Choice",
        reason: FinishReason,
        cut: Cut | None = None,
        stop: str | None = None,
    ) -> None:
        """A choice is complete; with the last one so is the session."""
        if self._holding is not None:
            for event, text_bytes in self._holding.release(choice.journal.index):
                self._put(event, text_bytes)
        if self._ranking is None:
            if choice.echo:
                self._put(Delta(choice.journal.index, choice.echo), len(choice.echo))
            self._put(ChoiceEnd(choice.journal.index, reason, cut, stop))
        else:
            self._ranking.end(choice.journal, choice.prompt_index, reason)
        self._open -= 1
        if self._open:
            return
        if self._ranking is not None:
            self._put_best(self._ranking)
        self._end(Completed(self._usage()))

    def _usage(self) -> Usage:
        readings = [choice.reading for choice in self.choices if choice.reading is not None]
        return Usage(
            self.prompt_tokens,
            self.tokens_emitted,
            self.cached_tokens,
            sum(reading.reasoning_tokens for reading in readings),
        )

    def fail(self, problem: Problem) -> None:
        """Terminal, unless a terminal event is there already."""
        if self.terminal is None:
            self._end(Failed(problem))

    def _put_best(self, ranking: Ranking) -> None:
        echoes = {choice.prompt_index: choice.echo for choice in self.choices}
        for index, text, logprobs, reason in ranking.best():
            echo = echoes[index // self.request.n]
            if echo:
                self._put(Delta(index, echo))
            if text or logprobs:
                self._put(Delta(index, text, logprobs if self.request.sampling.logprobs else ()))
            self._put(ChoiceEnd(index, reason))

    def _end(self, event: Completed | Failed) -> None:
        self.terminal = event
        self._put(event)
        if self._sink is not None:
            self.lease.close()

    def _hand(self, take: Callable[[Sequence[Event]], bool]) -> bool:
        if self._pending:
            if self.terminal is not None or not take(self._pending):
                return False
            self._forget_read()
        return True

    def _forget_read(self) -> None:
        """What was pending has been read."""
        self._pending = []
        self.lease.adjust(-self._unread_bytes)
        self._unread_bytes = 0

    def _put(self, event: Event, text_bytes: int = 0) -> None:
        size_bytes = text_bytes + EVENT_BYTES
        if self._sink is not None:
            self._sink(event, size_bytes)
            return
        self._unread_bytes += size_bytes
        self.lease.adjust(size_bytes)
        self._pending.append(event)
        if self._bell.ring():
            return
        if self._unread_bytes > self._max_unread_bytes and self._patience is None:
            # What one step brings may be large: a reader that takes it at once is not slow.
            loop = asyncio.get_running_loop()
            self._patience = loop.call_later(_PATIENCE_S, self._judge_reader)

    def _judge_reader(self) -> None:
        self._patience = None
        if self._unread_bytes > self._max_unread_bytes and self.terminal is None:
            self.is_overrun = True
            self.cancel()
