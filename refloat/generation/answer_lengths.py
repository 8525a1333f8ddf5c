"""How long answers of a model tend to be, from those that ended last. Pure.

`max_tokens` says little: agents ask for thousands and need some hundred. What is foreseen too short
costs a preemption, what is foreseen too long leaves the cache empty.
"""

from bisect import bisect_right, insort
from collections import deque

#: With fewer than so many nothing is known, and an answer is expected to have so many tokens, or twice
#: those that it has.
_FEWEST = 8
_UNKNOWN = 256
_MOST = 256
#: Of the answers that were longer than this one is now: so many of a hundred ended before.
_QUANTILE = 0.6
#: What is foreseen for many together is a little longer than what they really need: so their sum, which
#: scatters, is seldom too small.
_CAUTION = 0.9
_GOLDEN_RATIO = 0.6180339887498949


def place_among_many(generation: int) -> float:
    """The quantile at which one of many is expected to end. Evenly spread, so that they are expected
    to end one after another as they will, and not all at the same length."""
    return 1 - (1 - generation * _GOLDEN_RATIO % 1) * _CAUTION


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

    def left(self, emitted: int, most_left: int, quantile: float = _QUANTILE) -> int:
        """Tokens that are expected of an answer that has `emitted` and may have `most_left` more, if it
        ends at this quantile of those that were longer than it is."""
        lengths = self._sorted
        if len(lengths) < _FEWEST:
            return min(most_left, max(_UNKNOWN - emitted, emitted))
        first = bisect_right(lengths, emitted)
        longer = len(lengths) - first
        # one that is longer than all before it: half of its way, as far as anybody knows
        expected = (
            lengths[first + min(longer - 1, int(longer * quantile))] - emitted
            if longer
            else emitted
        )
        return min(most_left, expected)
