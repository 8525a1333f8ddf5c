"""Long steps on stderr: bars on a terminal, else a plain line now and then."""

import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Self

from refloat.models.progress import Progress, ProgressSink, Stage

if TYPE_CHECKING:
    from rich.progress import Progress as RichProgress
    from rich.progress import TaskID

#: Seconds between two plain lines about one step.
EVERY_S = 5.0
#: Hashing less than this is over before it could be read.
_QUIET_HASH_BYTES = 256 * 1024 * 1024

Say = Callable[[str], None]


def say_on_stderr(text: str) -> None:
    """One line for people."""
    print(text, file=sys.stderr, flush=True)


class PlainProgress:
    """Lines: one when a step begins, then at most one every few seconds."""

    def __init__(self, say: Say, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._say = say
        self._clock = clock
        self._current: tuple[str, Stage] | None = None
        self._said_s = 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Nothing to close."""

    def sink(self, name: str) -> ProgressSink:
        """Where reports about one model go."""

        def report(progress: Progress) -> None:
            if is_quiet(progress):
                return
            step, now = (name, progress.stage), self._clock()
            if step != self._current or now - self._said_s >= EVERY_S:
                self._current, self._said_s = step, now
                self._say(f"{name}: {as_text(progress)}")

        return report


class BarProgress:
    """Bars that are drawn over in place; a finished step's bar stays."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

        self._bars: RichProgress = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=30),
            TextColumn("{task.fields[amount]}"),
            TimeElapsedColumn(),
            console=Console(stderr=True),
        )
        self._task: TaskID | None = None
        self._current: tuple[str, Stage] | None = None

    def __enter__(self) -> Self:
        self._bars.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is None:
            self._finish()
        self._bars.stop()

    def sink(self, name: str) -> ProgressSink:
        """Where reports about one model go."""

        def report(progress: Progress) -> None:
            if is_quiet(progress):
                return
            step = (name, progress.stage)
            if step != self._current or self._task is None:
                self._finish()
                self._current = step
                self._task = self._bars.add_task("", total=progress.total, amount="")
            self._bars.update(
                self._task,
                description=f"{name}: {progress.message}",
                completed=progress.done,
                total=progress.total,
                amount=amount(progress),
            )

        return report

    def _finish(self) -> None:
        """A step that another follows is done, whether or not its last report said so."""
        if self._task is not None:
            self._bars.update(self._task, total=1, completed=1, amount="")
            self._bars.stop_task(self._task)
            self._task = None


def open_progress(say: Say = say_on_stderr) -> PlainProgress | BarProgress:
    """Bars if stderr is a terminal, else lines through `say`."""
    return BarProgress() if sys.stderr.isatty() else PlainProgress(say)


def is_quiet(progress: Progress) -> bool:
    """Whether a step is too short to be mentioned."""
    return progress.stage is Stage.HASH and (progress.total or 0) < _QUIET_HASH_BYTES


def amount(progress: Progress) -> str:
    """How much is done, in words."""
    if progress.unit == "bytes" and progress.total:
        return f"{progress.done / 1e6:.0f} of {progress.total / 1e6:.0f} MB"
    if progress.total:
        return f"step {progress.done} of {progress.total}"
    return ""


def as_text(progress: Progress) -> str:
    """One report as a line."""
    done = amount(progress)
    return f"{progress.message} ({done})" if done and progress.done else progress.message
