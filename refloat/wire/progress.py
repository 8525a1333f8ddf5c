"""The progress page: what a worker is doing, readable while it can say nothing.

`step()` holds the GIL for its whole length, so a worker cannot answer a ping. It writes this page
before and after each phase instead; the gateway maps the same memory (a memfd, passed by fd) and
reads it without asking. A seqlock keeps a reader from seeing half an update: the counter is odd while
a write is under way, and a read whose counter changed is repeated.
"""

import mmap
import os
import struct
from collections.abc import Sequence
from enum import IntEnum
from typing import NamedTuple

PAGE_BYTES = 3 * 4096
_LAYOUT_VERSION = 1
#: Requests of a batch that the page can name: as many as `max_num_seqs` may be, since whoever is not
#: named when a step never returns is not suspected of it.
MAX_NAMED = 1024

_HEAD = struct.Struct("<IIIIQQQQ")  # version, seq, phase, named, step, tokens, begin_ns, beats
_SEQ = struct.Struct("<I")
_SEQ_OFFSET = 4


class Phase(IntEnum):
    """What a worker is doing; each phase has a time budget of its own."""

    STARTING = 0
    LOADING = 1
    IDLE = 2
    ADDING = 3
    STEPPING = 4
    SENDING = 5
    PROBING = 6
    LEAVING = 7


class Progress(NamedTuple):
    """One consistent reading of the page."""

    phase: Phase
    step: int
    """Steps begun since the engine was loaded."""
    tokens: int
    """Tokens that the phase has to compute, as far as known."""
    begin_ns: int
    """When the phase began, `time.monotonic_ns()` (one clock for all processes of a host)."""
    beats: int
    """Raised at every write; unequal beats mean progress."""
    generations: tuple[int, ...]
    """The batch of the step, by generation id (at most `MAX_NAMED`)."""


class ProgressWriter:
    """The worker's end. Writing costs a few microseconds and never blocks."""

    def __init__(self, fd: int) -> None:
        self._map = mmap.mmap(fd, PAGE_BYTES)
        self._seq = 0
        self._beats = 0

    def write(
        self,
        phase: Phase,
        *,
        step: int,
        begin_ns: int,
        tokens: int = 0,
        generations: Sequence[int] = (),
    ) -> None:
        """Publish the phase that begins now."""
        named = generations[:MAX_NAMED]
        self._beats += 1
        self._seq = (self._seq + 1) & 0xFFFFFFFF
        _SEQ.pack_into(self._map, _SEQ_OFFSET, self._seq)
        struct.pack_into(f"<{len(named)}Q", self._map, _HEAD.size, *named)
        _HEAD.pack_into(
            self._map, 0, _LAYOUT_VERSION, self._seq, phase, len(named), step, tokens, begin_ns,
            self._beats,
        )  # fmt: skip
        self._seq = (self._seq + 1) & 0xFFFFFFFF
        _SEQ.pack_into(self._map, _SEQ_OFFSET, self._seq)


class ProgressReader:
    """The gateway's end; it owns the memory."""

    def __init__(self) -> None:
        self.fd = os.memfd_create("refloat-progress", os.MFD_CLOEXEC)
        os.ftruncate(self.fd, PAGE_BYTES)
        self._map = mmap.mmap(self.fd, PAGE_BYTES, prot=mmap.PROT_READ | mmap.PROT_WRITE)

    def read(self) -> Progress | None:
        """The page as it stands; `None` before the first write or when a writer died inside one."""
        for _ in range(8):
            (before,) = _SEQ.unpack_from(self._map, _SEQ_OFFSET)
            version, _, phase, named, step, tokens, begin_ns, beats = _HEAD.unpack_from(
                self._map, 0
            )
            if version != _LAYOUT_VERSION or before % 2 or named > MAX_NAMED:
                continue
            ids = struct.unpack_from(f"<{named}Q", self._map, _HEAD.size)
            (after,) = _SEQ.unpack_from(self._map, _SEQ_OFFSET)
            if before == after:
                return Progress(Phase(phase), step, tokens, begin_ns, beats, ids)
        return None

    def close(self) -> None:
        """Unmap and close; the worker's own mapping is unaffected."""
        self._map.close()
        os.close(self.fd)
