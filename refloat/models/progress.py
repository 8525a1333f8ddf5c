"""What long steps report while they run. How it is shown is the command line's matter."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal


class Stage(StrEnum):
    """The steps between a model string and a folder that can be loaded."""

    WAIT = "wait"
    """Another process builds the same thing."""
    DOWNLOAD = "download"
    UNPACK = "unpack"
    HASH = "hash"
    CONVERT = "convert"


@dataclass(frozen=True, slots=True)
class Progress:
    """How far one step is. The first report of a step opens it, the next step's closes it."""

    stage: Stage
    message: str
    """What is done to what, for people."""
    done: int = 0
    total: int | None = None
    """`None`: not known."""
    unit: Literal["bytes", "steps"] = "bytes"


ProgressSink = Callable[[Progress], None]


def ignore_progress(progress: Progress) -> None:
    """A sink for callers who do not care."""
