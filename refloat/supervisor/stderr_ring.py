"""The last words a child wrote to stdout and stderr: kept in a ring, cut into lines for the log.

Pure; the pipe is read by `process.py`.
"""

RING_BYTES = 64 * 1024
_LONGEST_LINE = 500
_LINES_AT_A_TIME = 50


class StderrRing:
    """Keeps the newest `RING_BYTES` bytes."""

    def __init__(self) -> None:
        self._ring = bytearray()
        self._line = bytearray()

    def feed(self, data: bytes) -> list[str]:
        """Take bytes as they were read; the lines they complete, bounded in number and length."""
        self._ring += data
        del self._ring[:-RING_BYTES]
        self._line += data
        *whole, rest = bytes(self._line).split(b"\n")
        if len(rest) > _LONGEST_LINE:
            whole, rest = [*whole, rest], b""
        self._line = bytearray(rest)
        lines = [_readable(line) for line in whole[:_LINES_AT_A_TIME]]
        if len(whole) > _LINES_AT_A_TIME:
            lines.append(f"({len(whole) - _LINES_AT_A_TIME} more lines not logged)")
        return lines

    def text(self) -> str:
        """All that is kept, oldest first."""
        return self._ring.decode("utf-8", errors="replace")


def _readable(line: bytes) -> str:
    text = line[:_LONGEST_LINE].decode("utf-8", errors="replace").rstrip()
    return "".join(char if char.isprintable() else " " for char in text)
