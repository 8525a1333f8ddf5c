"""How text is read in which some tags must not occur: how much of a tag it ends with."""

from functools import lru_cache

from refloat.grammar.errors import GrammarError
from refloat.grammar.nodes import Free


class FreeText:
    """States are numbers: 0, nothing of a tag was just seen; else so much of one."""

    DEAD = -1

    def __init__(self, tags: tuple[str, ...]) -> None:
        """Raises `GrammarError` for tags of which one may begin inside another."""
        self.firsts = "".join(sorted({tag[:1] for tag in tags}))
        if not all(tags) or any(char in self.firsts for tag in tags for char in tag[1:]):
            raise GrammarError("text cannot be without these")
        self._tags = frozenset(tags)
        found = {tag[:count] for tag in tags for count in range(1, len(tag))}
        self._seen = ["", *sorted(found)]
        self._states = {seen: state for state, seen in enumerate(self._seen)}

    def after(self, state: int, char: str) -> int:
        """The state behind one more character; `DEAD`: a tag is complete."""
        seen = self._seen[state] + char
        if seen not in self._tags and seen not in self._states:
            seen = char  # no tag goes on so, but one may begin here
        if seen in self._tags:
            return self.DEAD
        return self._states.get(seen, 0)

    def telling(self, state: int) -> str:
        """Characters behind which the state is not 0."""
        at = len(self._seen[state])
        nexts = {
            tag[at] for tag in self._tags if len(tag) > at and tag.startswith(self._seen[state])
        }
        return "".join(sorted(nexts.union(self.firsts)))


@lru_cache(maxsize=256)
def reading_of(free: Free) -> FreeText:
    """How a node's text is read."""
    return FreeText(free.tags)
