"""What is said of long steps."""

import io
import sys

import pytest

from refloat.cli.progress import EVERY_S, BarProgress, PlainProgress, open_progress
from refloat.models.progress import Progress, Stage


class _Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_plain_progress_says_each_step_and_then_now_and_then() -> None:
    lines: list[str] = []
    clock = _Clock()
    with PlainProgress(lines.append, clock=clock) as progress:
        report = progress.sink("m")
        report(Progress(Stage.DOWNLOAD, "fetching", 0, 100_000_000))
        report(Progress(Stage.DOWNLOAD, "fetching", 10_000_000, 100_000_000))
        clock.now = EVERY_S
        report(Progress(Stage.DOWNLOAD, "fetching", 20_000_000, 100_000_000))
        report(Progress(Stage.HASH, "checking", 1, 2))
        report(Progress(Stage.CONVERT, "converting", 1, 4, unit="steps"))
        report(Progress(Stage.WAIT, "waiting"))
    assert lines == [
        "m: fetching",
        "m: fetching (20 of 100 MB)",
        "m: converting (step 1 of 4)",
        "m: waiting",
    ]


def test_bar_progress_takes_every_kind_of_report(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    with BarProgress() as progress:
        report = progress.sink("m")
        report(Progress(Stage.WAIT, "waiting"))
        report(Progress(Stage.DOWNLOAD, "fetching", 0, 100_000_000))
        report(Progress(Stage.DOWNLOAD, "fetching", 200_000_000, 100_000_000))
        report(Progress(Stage.CONVERT, "converting", 1, 4, unit="steps"))
    assert "m: converting" in stream.getvalue()


def test_open_progress_without_terminal_is_plain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    assert isinstance(open_progress(), PlainProgress)
