"""The life of a worker slot, as a table. Everything that affects its transitions is in this file.

Pure: no clock, no process, no I/O. The supervisor feeds events, performs the effects, and publishes
the state. A pair that the table lacks raises `IllegalTransitionError` and changes nothing.
"""

from collections.abc import Mapping
from enum import StrEnum


class WorkerState(StrEnum):
    """Where a worker slot stands."""

    SPAWNING = "spawning"
    """The process starts; it has not said anything yet."""
    LOADING = "loading"
    """It builds its engine."""
    PROBING = "probing"
    """It answers fixed ids, alone, before anybody's work."""
    READY = "ready"
    """It takes work."""
    SUSPECT = "suspect"
    """Older than half its budget: no longer ready, not yet condemned."""
    DRAINING = "draining"
    """Asked to leave."""
    EXITED = "exited"
    """Gone, or being killed and reaped; nothing new yet."""
    BACKOFF = "backoff"
    """Lost; the next process starts after a delay."""
    FAILED = "failed"
    """No further try, or only after a cool-down."""
    STUCK = "stuck"
    """Could not be reaped: its device is not touched again."""


class WorkerEvent(StrEnum):
    """What can happen to a slot. What an event carries (a fault's kind and reason) travels beside
    it and never decides a transition."""

    HELLO = "hello"
    """The child runs our program in our version."""
    LOADED = "loaded"
    """The engine stands."""
    PROVED = "proved"
    """It gave the right answer to the probe."""
    LATE = "late"
    """Half of a budget is used up."""
    CAUGHT_UP = "caught_up"
    """It made progress after all."""
    FAULT = "fault"
    """Any evidence that this child can no longer be used."""
    STOP = "stop"
    """The operator wants no child here any more."""
    RETRY = "retry"
    """Reaped; another may be started."""
    BREAK = "break"
    """Reaped; the crash budget is used up."""
    GIVE_UP = "give_up"
    """Reaped; another would fail the same way."""
    GONE = "gone"
    """Reaped after `STOP`."""
    UNREAPED = "unreaped"
    """Not reaped in time."""
    RECLAIMED = "reclaimed"
    """Reaped after all."""
    BACKOFF_OVER = "backoff_over"
    """The delay is over."""
    COOLED_DOWN = "cooled_down"
    """The breaker allows one more try."""
    RESET = "reset"
    """The operator says: try again."""


class Effect(StrEnum):
    """What the supervisor has to do after a transition, in the order given, once it is published."""

    SPAWN = "spawn"
    """Start a process."""
    SEND_CONFIGURE = "send_configure"
    """Tell it what to load."""
    SEND_PROBE = "send_probe"
    """Give it the probe."""
    ANNOUNCE_READY = "announce_ready"
    """Dispatch may send it work."""
    ANNOUNCE_SUSPECT = "announce_suspect"
    """Dispatch sends it nothing new."""
    ANNOUNCE_WELL = "announce_well"
    """Dispatch may send it work again."""
    ANNOUNCE_LOST = "announce_lost"
    """Dispatch parks what it had."""
    ASK_TO_LEAVE = "ask_to_leave"
    """Close the link, later SIGTERM, then SIGKILL."""
    KILL = "kill"
    """SIGKILL, without asking."""
    REAP = "reap"
    """Wait for the kernel to have taken it away."""
    START_BACKOFF = "start_backoff"
    """Start the delay."""
    OPEN_BREAKER = "open_breaker"
    """Start the cool-down after which one more try is made."""
    CLEAR_BUDGET = "clear_budget"
    """Forget earlier faults."""


class IllegalTransitionError(Exception):
    """The table has no entry: a bug in the supervisor, never a child's doing."""


Step = tuple[WorkerState, tuple[Effect, ...]]
Table = Mapping[tuple[WorkerState, WorkerEvent], Step]

_S = WorkerState
_E = WorkerEvent
_X = Effect

#: How a slot begins.
INITIAL: Step = (_S.SPAWNING, (_X.SPAWN,))

#: States in which a child is there and can be lost.
LIVE: frozenset[WorkerState] = frozenset(
    {_S.SPAWNING, _S.LOADING, _S.PROBING, _S.READY, _S.SUSPECT, _S.DRAINING}
)

WORKER_TABLE: Table = {
    (_S.SPAWNING, _E.HELLO): (_S.LOADING, (_X.SEND_CONFIGURE,)),
    (_S.SPAWNING, _E.FAULT): (_S.EXITED, (_X.KILL, _X.REAP)),
    (_S.SPAWNING, _E.STOP): (_S.DRAINING, (_X.ASK_TO_LEAVE,)),
    (_S.LOADING, _E.LOADED): (_S.PROBING, (_X.SEND_PROBE,)),
    (_S.LOADING, _E.FAULT): (_S.EXITED, (_X.KILL, _X.REAP)),
    (_S.LOADING, _E.STOP): (_S.DRAINING, (_X.ASK_TO_LEAVE,)),
    (_S.PROBING, _E.PROVED): (_S.READY, (_X.ANNOUNCE_READY,)),
    (_S.PROBING, _E.FAULT): (_S.EXITED, (_X.KILL, _X.REAP)),
    (_S.PROBING, _E.STOP): (_S.DRAINING, (_X.ASK_TO_LEAVE,)),
    (_S.READY, _E.LATE): (_S.SUSPECT, (_X.ANNOUNCE_SUSPECT,)),
    (_S.READY, _E.FAULT): (_S.EXITED, (_X.ANNOUNCE_LOST, _X.KILL, _X.REAP)),
    (_S.READY, _E.STOP): (_S.DRAINING, (_X.ANNOUNCE_LOST, _X.ASK_TO_LEAVE)),
    (_S.SUSPECT, _E.CAUGHT_UP): (_S.READY, (_X.ANNOUNCE_WELL,)),
    (_S.SUSPECT, _E.FAULT): (_S.EXITED, (_X.ANNOUNCE_LOST, _X.KILL, _X.REAP)),
    (_S.SUSPECT, _E.STOP): (_S.DRAINING, (_X.ANNOUNCE_LOST, _X.ASK_TO_LEAVE)),
    (_S.DRAINING, _E.FAULT): (_S.EXITED, (_X.KILL, _X.REAP)),
    (_S.EXITED, _E.RETRY): (_S.BACKOFF, (_X.START_BACKOFF,)),
    (_S.EXITED, _E.BREAK): (_S.FAILED, (_X.OPEN_BREAKER,)),
    (_S.EXITED, _E.GIVE_UP): (_S.FAILED, ()),
    (_S.EXITED, _E.GONE): (_S.EXITED, ()),
    (_S.EXITED, _E.UNREAPED): (_S.STUCK, ()),
    (_S.EXITED, _E.STOP): (_S.EXITED, ()),
    (_S.BACKOFF, _E.BACKOFF_OVER): (_S.SPAWNING, (_X.SPAWN,)),
    (_S.BACKOFF, _E.RESET): (_S.SPAWNING, (_X.CLEAR_BUDGET, _X.SPAWN)),
    (_S.BACKOFF, _E.STOP): (_S.EXITED, ()),
    (_S.FAILED, _E.COOLED_DOWN): (_S.SPAWNING, (_X.SPAWN,)),
    (_S.FAILED, _E.RESET): (_S.SPAWNING, (_X.CLEAR_BUDGET, _X.SPAWN)),
    (_S.FAILED, _E.STOP): (_S.FAILED, ()),
    # What is reaped at last may have left its device in any state: only after a cool-down again.
    (_S.STUCK, _E.RECLAIMED): (_S.FAILED, (_X.OPEN_BREAKER,)),
    (_S.STUCK, _E.STOP): (_S.STUCK, ()),
}

_WORKER_ONLY = {_S.PROBING, _S.SUSPECT}

#: Prep serves as soon as it has loaded: it proves itself with every job, and each has a deadline.
PREP_TABLE: Table = {
    pair: step
    for pair, step in WORKER_TABLE.items()
    if pair[0] not in _WORKER_ONLY and step[0] not in _WORKER_ONLY
} | {(_S.LOADING, _E.LOADED): (_S.READY, (_X.ANNOUNCE_READY,))}


def transition(table: Table, state: WorkerState, event: WorkerEvent) -> Step:
    """The state after `event`, and what has to be done then. Raises `IllegalTransitionError`."""
    try:
        return table[state, event]
    except KeyError:
        raise IllegalTransitionError(f"nothing is said of {event} in {state}") from None
