"""Reasoning between two tags at the beginning of an answer, or from its beginning on if the prompt
opened it. Tags anywhere else are text. Blanks next to the tags are markup.
"""

from collections.abc import Iterable
from typing import NamedTuple

from refloat.parsing.parts import Content, Part, Reasoning
from refloat.parsing.source import Source
from refloat.parsing.tags import TagFinder, blank_tail, look, skip_blanks


class Tags(NamedTuple):
    """How one family sets its reasoning apart."""

    opens: str
    closes: str
    also_ends: tuple[str, ...] = ()
    """Marks of calls, which end a reasoning that was not closed."""
    answer_opens: str = ""
    """Tags around the answer proper, if it has some."""
    answer_closes: str = ""


class TaggedReasoning:
    """A `Parser` (`parts.py`)."""

    is_done = False

    def __init__(self, tags: Tags, *, opened: bool = False) -> None:
        """`opened`: the prompt ends behind the opening tag."""
        self._tags = tags
        self._ends = TagFinder((tags.closes, *tags.also_ends))
        self._answer_end = TagFinder((tags.answer_closes,))
        self._source = Source()
        self._opened = opened
        self._state = "begin"
        self._has_blanks_to_drop = True

    @property
    def is_inside(self) -> bool:
        """Whether the text is reasoning at present."""
        return self._state == "inside" or (self._state == "begin" and self._opened)

    def push(self, text: str) -> list[Part]:
        """Take more text."""
        if self._state == "answer" and not self._tags.answer_closes:
            return [Content(text)] if text else []
        return list(self._run()) if self._source.add(text) else []

    def finish(self, *, cut: bool) -> list[Part]:
        """No more text comes. What was held back goes out as what it would have been."""
        self._source.end()
        return list(self._run())

    def _run(self) -> Iterable[Part]:
        source = self._source
        while not source.is_empty:
            match self._state:
                case "begin":
                    moved = self._begin()
                case "inside":
                    end, moved = self._inside()
                    if end > source.at:
                        yield Reasoning(source.take(end))
                    if moved:
                        self._leave()
                case "between":
                    moved = self._between()
                case _:
                    yield from self._answer()
                    return
            if not moved:
                return

    def _begin(self) -> bool:
        """Whether it is known what the answer begins with."""
        source, tags = self._source, self._tags
        at = skip_blanks(source.text, source.at)
        seen = look(source.text, at, (tags.opens,))
        if seen.tag is not None:
            source.at = at + len(seen.tag)
            self._state = "inside"
            return True
        if seen.may_come and not source.ended:
            return False
        self._state = "inside" if self._opened else "answer"
        return True

    def _inside(self) -> tuple[int, bool]:
        """Up to where the text is reasoning for certain, and whether that is all of it."""
        source = self._source
        if self._has_blanks_to_drop:
            source.at = skip_blanks(source.text, source.at)
            self._has_blanks_to_drop = source.is_empty
        found = self._ends.find(source.text, source.at)
        if found is not None:
            return blank_tail(source.text, source.at, found.start), True
        if source.ended:
            return len(source.text), False
        end = self._ends.safe_end(source.text, source.at)
        return blank_tail(source.text, source.at, end), False

    def _leave(self) -> None:
        source = self._source
        found = self._ends.find(source.text, source.at)
        assert found is not None
        source.at = found.end if found.tag == self._tags.closes else found.start
        self._state = "between"

    def _between(self) -> bool:
        """Blanks behind the reasoning, and the answer's own opening."""
        source, tags = self._source, self._tags
        source.at = skip_blanks(source.text, source.at)
        if source.is_empty:
            return False
        if tags.answer_opens:
            seen = look(source.text, source.at, (tags.answer_opens,))
            if seen.may_come and not source.ended:
                return False
            source.at += len(seen.tag or "")
        self._state = "answer"
        return True

    def _answer(self) -> Iterable[Part]:
        source, finder = self._source, self._answer_end
        while (found := finder.find(source.text, source.at)) is not None:
            yield Content(source.take(found.start))
            source.at = found.end
        end = len(source.text) if source.ended else finder.safe_end(source.text, source.at)
        if end > source.at:
            yield Content(source.take(end))


def prompt_opens(tags: Tags, prompt_tail: str) -> bool:
    """Whether a prompt that ends like this has opened the reasoning."""
    return prompt_tail.rstrip().endswith(tags.opens.rstrip())
