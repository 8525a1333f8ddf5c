"""Guided generations that have lost their worker: what their guides leave for the rest of their text.

A grammar starts over in every attempt. So before such a generation may be sent again, prep makes the
grammar of what may still follow; until then it waits in the line and is passed over.
"""

import asyncio
from codecs import utf_8_decode
from collections.abc import Callable

from refloat.generation.choice import Choice
from refloat.generation.custody import Custody
from refloat.generation.journal import Journal
from refloat.generation.ports import PrepPort
from refloat.parsing.vocabulary import Vocabulary
from refloat.wire.guide import Guide
from refloat.wire.problem import Problem, ProblemError, ProblemKind


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
        emitted = take_back_partial(choice, self._vocabulary().whole())
        if emitted is None:
            work = self._give_up(choice)
        else:
            work = self._resume(choice, choice.journal.params.guide, emitted)
        self._tasks.add(asyncio.get_running_loop().create_task(work, name="guide-resumer"))

    def check(self) -> None:
        """Raises what broke in a task, which nobody else would hear of."""
        for task in [task for task in self._tasks if task.done()]:
            self._tasks.discard(task)
            task.result()

    async def _resume(self, choice: Choice, guide: Guide | None, emitted: str) -> None:
        journal, position = choice.journal, len(choice.journal.emitted)
        if guide is None or not journal.needs_rest:
            self._done()
            return
        try:
            rest = await self._prep.resume_guide(guide, emitted)
        except ProblemError:
            rest = None
        if rest is None:
            await self._give_up(choice)
            return
        journal.know_rest(position, rest)
        self._done()

    async def _give_up(self, choice: Choice) -> None:
        if not choice.journal.is_terminal:
            self._custody.fail(choice.session, unguidable(), culprit=choice, resumable=False)
            self._done()


def take_back_partial(choice: Choice, vocabulary: Vocabulary) -> str | None:
    """The text so far, as the grammar engine saw it. Ids that end inside a character, of which nothing
    went out, are taken back: no grammar begins there. `None`: they cannot be, since the same token
    holds whole characters, which went out."""
    journal = choice.journal
    text, left = _decoded(journal, vocabulary)
    if not left:
        return text
    count, size = 0, 0
    while size < left:
        count += 1
        size += len(vocabulary.raw_of(journal.emitted[-count]))
    if size > left:
        return None
    journal.take_back(count)
    choice.pipeline.forget_partial()
    return text


def _decoded(journal: Journal, vocabulary: Vocabulary) -> tuple[str, int]:
    data = b"".join(map(vocabulary.raw_of, journal.emitted))
    text, used = utf_8_decode(data, "replace", False)
    return text, len(data) - used


def unguidable() -> Problem:
    """Its worker is lost, and there is no grammar of what its text may go on with."""
    return Problem(
        ProblemKind.ENGINE_ERROR,
        "The engine was lost in mid-generation, and the answer's form could not be kept to from where "
        "it stood.",
        resumable=False,
    )
