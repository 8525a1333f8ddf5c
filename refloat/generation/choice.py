"""One choice of a request while it is under way: its journal, its text, and how its tries went.

Turns what the journal accepted into text and hands it to the session. Decides nothing about workers.
"""

from collections.abc import Callable
from typing import NamedTuple

from refloat.generation.answer_lengths import AnswerLengths, place_among_many
from refloat.generation.events import FinishReason
from refloat.generation.journal import Accepted, Journal
from refloat.generation.ports import Pipeline
from refloat.generation.prefix import PromptChain
from refloat.generation.reading import Reading
from refloat.generation.runaway import Cut, RunawayRules
from refloat.generation.scheduler import Waiting
from refloat.generation.session import Session
from refloat.parsing.pipeline import TextOut

#: What one token id costs in a list: a pointer and an int object.
ID_BYTES = 36


class Ending(NamedTuple):
    """Why a choice is complete, as `Session.end_choice` is told."""

    reason: FinishReason
    cut: Cut | None
    """What ended it, if it would not have ended by itself."""
    stop: str | None
    """The stop string that did."""


class Choice:
    """Mutable, one writer: the dispatch of its model."""

    __slots__ = (
        "chain",
        "cut",
        "echo",
        "is_distrusted",
        "journal",
        "judge",
        "last_token_s",
        "pipeline",
        "prompt_index",
        "reading",
        "resumes",
        "rules",
        "session",
        "shows_stop",
        "worker_id",
    )

    def __init__(
        self,
        session: Session,
        journal: Journal,
        pipeline: Pipeline,
        chain: PromptChain,
        *,
        prompt_index: int,
        shows_stop: bool,
        echo: str,
        rules: RunawayRules | None = None,
        reading: Reading | None = None,
    ) -> None:
        self.session = session
        self.journal = journal
        self.pipeline = pipeline
        self.chain = chain
        self.prompt_index = prompt_index
        self.shows_stop = shows_stop
        """Whether the text of a token that ends the answer is part of it."""
        self.echo = echo
        """Text of the prompt, sent before the answer's; empty: nothing, or sent already."""
        self.rules = rules
        """What ends it if it would not end by itself."""
        self.reading = reading
        """`None`: the text is the answer as it is."""
        self.cut: Cut | None = None
        """Which of them did."""
        self.resumes = 0
        """Times it was sent again since its last new token."""
        self.is_distrusted = False
        """A worker's account of it was wrong once already."""
        self.judge: Callable[[Choice, Ending], None] | None = None
        """Who says whether it may be complete like this; `None`: it may."""
        self.last_token_s: float | None = None
        self.worker_id: int | None = None
        """Who was sent the present attempt."""

    def waiting(self, lengths: AnswerLengths) -> Waiting:
        """As the scheduler sees it, if it becomes as long as answers were of late."""
        journal = self.journal
        return Waiting(
            journal.generation,
            len(journal.prompt) + len(journal.emitted),
            self.expected_left(lengths),
            journal.tokens_needed,
            self._hashes,
        )

    def _hashes(self, block_size: int) -> list[int]:
        return self.chain.continued(self.journal.emitted, block_size)[0]

    def expected_left(self, lengths: AnswerLengths) -> int:
        """Tokens that it is expected to bring yet."""
        emitted = len(self.journal.emitted)
        return lengths.left(emitted, self.journal.params.max_tokens - emitted)

    def expected_left_among_many(self, lengths: AnswerLengths) -> int:
        """The same for a sum over all that run: too much for some, too little for others."""
        journal = self.journal
        emitted = len(journal.emitted)
        quantile = place_among_many(journal.generation)
        return lengths.left(emitted, journal.params.max_tokens - emitted, quantile)

    @property
    def held_bytes(self) -> int:
        """Memory its ids take, prompt included."""
        return ID_BYTES * (len(self.journal.prompt) + len(self.journal.emitted))

    def advance(self, accepted: Accepted, now_s: float = 0.0) -> bool:
        """Give the accepted ids to the client as text. Whether the choice is complete now."""
        ids, logprobs, finish = accepted
        self.resumes = 0
        if finish is FinishReason.STOP and not self.shows_stop:
            ids = ids[:-1]
            logprobs = logprobs[:-1] if logprobs is not None else None
        out = self.pipeline.push(ids, logprobs)
        is_stopped = self._deliver(out, len(ids))
        if finish is None:
            if not is_stopped:
                self.cut = self.rules.judge(self.journal.emitted, now_s) if self.rules else None
                if self.cut is None:
                    return False
                finish = FinishReason.LENGTH
            self.journal.finish_with(finish or FinishReason.STOP)
        self._end(finish, is_stopped=is_stopped)
        return True

    def cut_short(self) -> None:
        """There is no room for another token anywhere: the answer ends as it is."""
        self.journal.finish_with(FinishReason.LENGTH)
        self._end(FinishReason.LENGTH, is_stopped=False)

    def _end(self, finish: FinishReason | None, *, is_stopped: bool) -> None:
        """Hand over what was held, and say why it ended."""
        if not is_stopped:
            is_stopped = self._deliver(self.pipeline.flush(), 0)
        # A stop string wins over a limit that the same token reached, as in OpenAI's API.
        reason = FinishReason.STOP if is_stopped or finish is None else finish
        if self.reading is not None:
            reason = self._finish_reading(self.reading, reason, is_stopped)
        ending = Ending(
            reason,
            self.cut if reason is FinishReason.LENGTH else None,
            self.pipeline.stop if reason is FinishReason.STOP else None,
        )
        if self.judge is None:
            self.session.end_choice(self, *ending)
        else:
            self.judge(self, ending)

    def _deliver(self, out: TextOut, tokens: int) -> bool:
        """Hand over what became final by so many tokens. Whether the answer is over by that."""
        reading = self.reading
        kept_bytes = ID_BYTES * tokens
        if reading is None:
            self.session.deliver(self, out.text, out.logprobs, kept_bytes)
            return out.stopped
        parts = reading.push(out.text, tokens)
        self.session.deliver_parts(self, parts, out.logprobs, kept_bytes)
        return out.stopped or reading.is_done

    def _finish_reading(
        self, reading: Reading, reason: FinishReason, is_stopped: bool
    ) -> FinishReason:
        """Hand over what was held. Why the answer ended: for its calls, if they are whole."""
        cut = reason is FinishReason.LENGTH or (is_stopped and not reading.is_done)
        self.session.deliver_parts(self, reading.finish(cut=cut), ())
        is_called = reason is FinishReason.STOP and reading.has_called
        return FinishReason.TOOL_CALLS if is_called else reason
