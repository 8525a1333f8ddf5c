"""Everything that a slot can be told, as data, in the order in which it happened."""

from dataclasses import dataclass
from enum import StrEnum

import msgspec

from refloat.supervisor.exits import Fault
from refloat.wire.link import LinkEnd


class Alarm(StrEnum):
    """The timers of a slot; at most one of each is set."""

    TICK = "tick"
    """Look at the child."""
    GRACE = "grace"
    """Evidence has had its moment: SIGKILL."""
    TERM = "term"
    """Asked to leave and still there: SIGTERM."""
    LEAVE = "leave"
    """Still there after SIGTERM: SIGKILL."""
    REAP = "reap"
    BACKOFF = "backoff"
    COOLDOWN = "cooldown"


class Order(StrEnum):
    """What an operator can ask of a slot."""

    STOP = "stop"
    RESET = "reset"


@dataclass(frozen=True, slots=True)
class Received:
    """A control message of a child (the hot ones do not pass here)."""

    worker_id: int
    message: msgspec.Struct


@dataclass(frozen=True, slots=True)
class LinkEnded:
    """A child's link is over; the process may live on."""

    worker_id: int
    end: LinkEnd
    detail: str


@dataclass(frozen=True, slots=True)
class ProcessEnded:
    """A child has ended and can be reaped."""

    worker_id: int


@dataclass(frozen=True, slots=True)
class Condemned:
    """Somebody else has found the child of the moment unusable."""

    fault: Fault
    worker_id: int | None = None
    """The child that is meant; `None`: whichever is there."""


Item = Received | LinkEnded | ProcessEnded | Condemned | Alarm | Order
