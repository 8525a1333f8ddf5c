"""How long answers of a model tend to be, from those that ended last. Pure.

`max_tokens` says little: agents ask for thousands and need some hundred. What is foreseen too short
costs a preemption, what is foreseen too long leaves the cache empty.
"""

from bisect import bisect_right, insort
from collections import deque

#: With fewer than so many nothing is foreseen, and everybody is expected to use all of `max_tokens`.
_FEWEST = 8
_MOST = 256
#: Of the answers that were longer than this one is now: so many of a hundred ended before.
_QUANTILE = 0.6


class AnswerLengths:
    """Of one model."""

    def __init__(self) -> None:
        self._recent: deque[int] = deque()
        self._sorted: list[int] = []

    def note(self, tokens: int) -> None:
        """An answer ended by itself or at its limit."""
        self._recent.append(tokens)
        insort(self._sorted, tokens)
        if len(self._recent) > _MOST:
            del self._sorted[bisect_right(self._sorted, self._recent.popleft()) - 1]

    def left(self, emitted: int, most_left: int) -> int:
        """Tokens that are expected of an answer that has `emitted` and may have `most_left` more."""
        lengths = self._sorted
        if len(lengths) < _FEWEST:
            return most_left
        first = bisect_right(lengths, emitted)
        longer = len(lengths) - first
        # one that is longer than all before it: half of its way, as far as anybody knows
        expected = lengths[first + int(longer * _QUANTILE)] - emitted if longer else emitted
        return min(most_left, expected)
