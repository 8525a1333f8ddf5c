"""Whether an answer has fallen into saying one phrase over and over. Pure: ids in, a verdict out.

Judged on the last `window` tokens: they are a loop if they are one phrase of at most a quarter of
them, repeated to the end without a gap. Text that merely repeats words is none.
"""

from collections.abc import Sequence

#: The phrase stands in the window so many times at least.
LEAST_REPEATS = 4
#: The window is looked at once in so many new tokens: a look costs as much as its length.
_LOOK_EVERY = 16


class LoopGuard:
    """For one answer. Sees its ids as they come, also those of earlier attempts."""

    def __init__(self, window: int) -> None:
        """`window`: tokens of one phrase that are too much; at least `LEAST_REPEATS`."""
        self._window = max(window, LEAST_REPEATS)
        self._looked_at = 0

    def is_looping(self, emitted: Sequence[int]) -> bool:
        """Whether the answer so far ends in a loop. Most calls only count."""
        count = len(emitted)
        if count < self._window or count - self._looked_at < _LOOK_EVERY:
            return False
        self._looked_at = count
        period = shortest_period(emitted[-self._window :])
        return period * LEAST_REPEATS <= self._window


def shortest_period(ids: Sequence[int]) -> int:
    """The least distance at which all ids equal each other; their number, if there is none."""
    border = [0] * len(ids)
    length = 0
    for position in range(1, len(ids)):
        while length and ids[position] != ids[length]:
            length = border[length - 1]
        if ids[position] == ids[length]:
            length += 1
        border[position] = length
    return len(ids) - (border[-1] if border else 0)
