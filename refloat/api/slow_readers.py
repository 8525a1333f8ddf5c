"""Connections whose other end takes nothing: found by their unsent bytes, and cut.

The application waits for none of them (`sse.py` gives a stream up by itself); this is for whatever
has been written already, whole answers and closing connections included.
"""

from collections.abc import Iterable
from typing import Protocol


class Sending(Protocol):
    """A connection's transport."""

    def get_write_buffer_size(self) -> int:
        """Bytes that the kernel has not taken yet."""
        ...

    def abort(self) -> None:
        """Close at once, and forget them."""
        ...


class SlowReaders:
    """Looks at all connections now and then. Time is passed in, as readings of one monotonic clock."""

    def __init__(self, timeout_s: float) -> None:
        """`timeout_s`: how long a connection may stand still with bytes to be sent."""
        self._timeout_s = timeout_s
        self._standing: dict[Sending, tuple[int, float]] = {}
        """Unsent bytes at the last look, and since when they have not become fewer."""

    def look(self, transports: Iterable[Sending], now_s: float) -> int:
        """Cut those that have stood still for too long; how many."""
        standing: dict[Sending, tuple[int, float]] = {}
        count = 0
        for transport in transports:
            unsent = transport.get_write_buffer_size()
            if not unsent:
                continue
            before, since_s = self._standing.get(transport, (unsent, now_s))
            if unsent < before:
                since_s = now_s
            if now_s - since_s >= self._timeout_s:
                transport.abort()
                count += 1
            else:
                standing[transport] = (unsent, since_s)
        self._standing = standing
        return count
