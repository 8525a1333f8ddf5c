"""The page on which a worker says what it is doing."""

import os
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, get_args

import pytest

from refloat.config.schema import SequenceCount
from refloat.wire.progress import MAX_NAMED, Phase, ProgressReader, ProgressWriter


@contextmanager
def page() -> Generator[tuple[ProgressReader, ProgressWriter]]:
    reader = ProgressReader()
    fd = os.dup(reader.fd)
    try:
        yield reader, ProgressWriter(fd)
    finally:
        os.close(fd)
        reader.close()


def test_page_nobody_wrote_says_nothing() -> None:
    with page() as (reader, _):
        assert reader.read() is None


@pytest.mark.parametrize("count", [0, 1, MAX_NAMED])
def test_batch_is_read_as_it_was_written(count: int) -> None:
    batch = tuple(range(1 << 40, (1 << 40) + count))
    with page() as (reader, writer):
        writer.write(Phase.IDLE, step=6, begin_ns=1)
        writer.write(Phase.STEPPING, step=7, begin_ns=2, tokens=3000, generations=batch)
        assert reader.read() == (Phase.STEPPING, 7, 3000, 2, 2, batch)


def test_largest_batch_that_may_be_configured_is_named_whole() -> None:
    [meta] = [one for one in get_args(SequenceCount) if not isinstance(one, type)]
    bounds: Any = meta
    assert bounds.le == MAX_NAMED
