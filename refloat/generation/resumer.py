"""Guided generations that have lost their worker: what their guides leave for the rest of their text.

A grammar starts over in every attempt. So before such a generation may be sent again, prep makes the
grammar of what may still follow; until then it waits in the line and is passed over. If there is none
within bounds, it goes on without, and what came of it is held to its guide before it may end.
"""

import asyncio
from codecs import utf_8_decode
from collections.abc import Awaitable, Callable, Coroutine
from typing import NamedTuple, TypeVar

from refloat.generation.choice import Choice, Ending
from refloat.generation.custody import Custody
from refloat.generation.events import FinishReason
from refloat.generation.journal import Journal
from refloat.generation.ports import PrepPort
from refloat.parsing.vocabulary import Vocabulary
from refloat.wire.problem import Problem, ProblemError, ProblemKind

_T = TypeVar("_T")

#: Times that prep is asked, if it is for want of time or of a process that it does not answer.
_TRIES = 3


class Seam(NamedTuple):
    """Where the text of a generation stands."""

    text: str
    """Its whole characters. All of them may have gone out."""
    ids: int
    """How many of its last ids have a part in a character that is not whole."""
    whole: str
    """The characters among those of `text` that these ids have said."""


class GuideResumer:
    """For one model. Its tasks end with their generations."""

    def __init__(
        self,
        prep: PrepPort,
        vocabulary: Callable[[], Vocabulary],
        custody: Custody,
        done: Callable[[], None],
    ) -> None:
        """`done` is called when something has changed: somebody may be sent now."""
        self._prep = prep
        self._vocabulary = vocabulary
        self._custody = custody
        self._done = done
        self._tasks: set[asyncio.Task[None]] = set()

    def attend(self, choice: Choice) -> None:
        """A guided generation was parked, and its rest is not known."""
        seam = seam_of(choice.journal, self._vocabulary().whole())
        if not seam.whole:
            take_back(choice, seam)
        self._work(self._resume(choice, seam))

    def check(self) -> None:
        """Raises what broke in a task, which nobody else would hear of."""
        for task in [task for task in self._tasks if task.done()]:
            self._tasks.discard(task)
            task.result()

    def _work(self, work: Coroutine[None, None, None]) -> None:
        self._tasks.add(asyncio.get_running_loop().create_task(work, name="guide-resumer"))

    async def _resume(self, choice: Choice, seam: Seam) -> None:
        journal = choice.journal
        if seam.whole and not await self._spell(choice, seam):
            self._give_up(choice)
            return
        position, guide = len(journal.emitted), journal.params.guide
        if guide is not None and journal.needs_rest:
            try:
                rest = await self._asked(lambda: self._prep.resume_guide(guide, seam.text))
            except ProblemError:
                choice.judge = self._judge
                journal.know_rest(position, None)
            else:
                if rest is None:  # what came without a guide is no beginning of what it allows
                    self._give_up(choice)
                    return
                journal.know_rest(position, rest)
        self._done()

    def _judge(self, choice: Choice, ending: Ending) -> None:
        """It went on without its guide, and is complete."""
        self._work(self._check(choice, ending))

    async def _check(self, choice: Choice, ending: Ending) -> None:
        journal, session, guide = choice.journal, choice.session, choice.journal.params.guide
        is_whole = ending.reason is not FinishReason.LENGTH and ending.stop is None
        text = _text_of(journal, self._vocabulary().whole(), is_whole=is_whole)
        try:
            is_right = guide is None or await self._asked(
                lambda: self._prep.check_guide(guide, text, is_whole=is_whole)
            )
        except ProblemError:
            is_right = False
        if session.terminal is not None:
            return
        if is_right:
            session.end_choice(choice, *ending)
            self._custody.settle(session)
        else:
            self._custody.fail(session, unguidable(), culprit=choice, resumable=False)
        self._done()

    async def _asked(self, ask: Callable[[], Awaitable[_T]]) -> _T:
        """What prep says. Raises `ProblemError`."""
        for _ in range(_TRIES - 1):
            try:
                return await ask()
            except ProblemError as error:
                if error.problem.kind is ProblemKind.INVALID_REQUEST:
                    raise
        return await ask()

    async def _spell(self, choice: Choice, seam: Seam) -> bool:
        """Have other ids say the characters that went out, in place of those that are taken back."""
        try:
            [ids] = await self._prep.tokenize([seam.whole], add_special_tokens=False)
        except ProblemError:
            return False
        said = b"".join(map(self._vocabulary().raw_of, ids))
        journal = choice.journal
        most = journal.params.max_tokens - len(journal.emitted) + seam.ids
        if journal.is_terminal or said != seam.whole.encode() or len(ids) >= most:
            return False
        take_back(choice, seam)
        journal.put_back(ids)
        return True

    def _give_up(self, choice: Choice) -> None:
        if not choice.journal.is_terminal:
            self._custody.fail(choice.session, unguidable(), culprit=choice, resumable=False)
            self._done()


def seam_of(journal: Journal, vocabulary: Vocabulary) -> Seam:
    """Where a text stands, as the grammar engine saw it: no grammar begins inside a character."""
    data = b"".join(map(vocabulary.raw_of, journal.emitted))
    text, used = utf_8_decode(data, "replace", False)
    count, left = 0, len(data) - used
    while left > 0:
        count += 1
        left -= len(vocabulary.raw_of(journal.emitted[-count]))
    return Seam(text, count, data[used + left : used].decode(errors="replace"))


def _text_of(journal: Journal, vocabulary: Vocabulary, *, is_whole: bool) -> str:
    """What it said, without the token that ended it."""
    ids = journal.emitted
    if is_whole and ids and ids[-1] in journal.params.stop_token_ids:
        ids = ids[:-1]
    return utf_8_decode(b"".join(map(vocabulary.raw_of, ids)), "replace", is_whole)[0]


def take_back(choice: Choice, seam: Seam) -> None:
    """The last ids never were."""
    if seam.ids:
        choice.journal.take_back(seam.ids)
        choice.pipeline.forget_partial()


def unguidable() -> Problem:
    """Its worker is lost, and there is no grammar of what its text may go on with."""
    return Problem(
        ProblemKind.ENGINE_ERROR,
        "The engine was lost in mid-generation, and the answer's form could not be kept to from where "
        "it stood.",
        resumable=False,
    )
