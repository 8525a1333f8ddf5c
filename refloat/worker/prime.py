"""A worker that waits primed: its engine's libraries imported, its model's files in the page cache.

It touches no device and holds no memory of its own for the model, so it may wait beside a worker that
serves on the same device. The order that ends the wait is read here.
"""

import time
from collections.abc import Iterator
from pathlib import Path

from refloat.engines.registry import import_engine
from refloat.wire.messages import Prime, Primed, ToWorker
from refloat.wire.pipe import EndOfLink, Pipe
from refloat.wire.progress import Phase, ProgressWriter

_CHUNK_BYTES = 4 << 20


def prime(
    pipe: Pipe[ToWorker], progress: ProgressWriter, order: Prime
) -> ToWorker | EndOfLink | None:
    """Prime, then wait; the next order. One that comes in the middle is not kept waiting."""
    began = time.monotonic()
    import_engine(order.engine)
    read_bytes = 0
    for count in _read_chunks(Path(order.model_path)) if order.model_path else ():
        read_bytes += count
        progress.write(Phase.STARTING, step=0, begin_ns=time.monotonic_ns())
        if (command := pipe.recv(0)) is not None:
            return command
    pipe.send(Primed(read_bytes, time.monotonic() - began))
    progress.write(Phase.IDLE, step=0, begin_ns=time.monotonic_ns())
    return pipe.recv()


def _read_chunks(path: Path) -> Iterator[int]:
    """Read a model's files once; the bytes of each chunk. What cannot be read is the load's to say."""
    buffer = bytearray(_CHUNK_BYTES)
    files = sorted(path.iterdir()) if path.is_dir() else [path]
    for file in files:
        try:
            if not file.is_file():
                continue
            with file.open("rb", buffering=0) as stream:
                while count := stream.readinto(buffer):
                    yield count
        except OSError:
            continue
