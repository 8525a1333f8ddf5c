"""Runs one helper process (pip, the conversion) to its end: lines as they come, a time limit.

The helper has a session of its own and never outlives the call: it is killed with its children
when the limit is over, or when the caller is interrupted.
"""

import contextlib
import os
import selectors
import signal
import subprocess
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import IO

from refloat.models.error import ModelError

_KEPT_LINES = 40
_TICK_S = 0.2


@dataclass(frozen=True, slots=True)
class ChildOutcome:
    """How a helper ended."""

    code: int
    """Negative: the signal that killed it."""
    stderr: tuple[str, ...]
    """Its last lines there, without blank ones."""


def run_child(
    command: Sequence[str],
    *,
    limit_s: float,
    what: str,
    env: Mapping[str, str] | None = None,
    on_line: Callable[[str], None] | None = None,
    on_tick: Callable[[], None] | None = None,
) -> ChildOutcome:
    """Run a command. `on_line` gets each line of stdout, `on_tick` is called a few times a second.

    Raises `ModelError` when it takes longer than `limit_s`.
    """
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=None if env is None else dict(env),
        start_new_session=True,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    errors: deque[str] = deque(maxlen=_KEPT_LINES)
    end = time.monotonic() + limit_s
    try:
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ, _Lines(on_line))
            selector.register(process.stderr, selectors.EVENT_READ, _Lines(errors.append))
            _pump(process, selector, end, on_tick)
        code = process.wait(timeout=max(0.0, end - time.monotonic()))
    except subprocess.TimeoutExpired:
        raise ModelError(f"{what} did not end within {limit_s:g} s") from None
    finally:
        _kill_session(process)
        process.stdout.close()
        process.stderr.close()
    return ChildOutcome(code, tuple(line for line in errors if line.strip()))


class _Lines:
    """Cuts a stream into lines."""

    def __init__(self, on_line: Callable[[str], None] | None) -> None:
        self._on_line = on_line
        self._rest = b""

    def feed(self, chunk: bytes) -> None:
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        if not chunk and self._rest:
            lines, self._rest = [self._rest], b""
        for line in lines:
            if self._on_line is not None:
                self._on_line(line.decode(errors="replace").rstrip("\r"))


def _pump(
    process: subprocess.Popen[bytes],
    selector: selectors.BaseSelector,
    end: float,
    on_tick: Callable[[], None] | None,
) -> None:
    """Until both streams are closed, or the process is gone and what it left has been read."""
    while selector.get_map():
        if time.monotonic() > end:
            raise subprocess.TimeoutExpired(process.args, 0)
        gone = process.poll() is not None
        ready = selector.select(timeout=0 if gone else _TICK_S)
        for key, _ in ready:
            _read(selector, key)
        if gone and not ready:
            return  # a grandchild may hold the streams open for ever
        if on_tick is not None:
            on_tick()


def _read(selector: selectors.BaseSelector, key: selectors.SelectorKey) -> None:
    stream: IO[bytes] = key.fileobj  # type: ignore[assignment]
    lines: _Lines = key.data
    chunk = os.read(stream.fileno(), 65536)
    lines.feed(chunk)
    if not chunk:
        selector.unregister(stream)


def _kill_session(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
