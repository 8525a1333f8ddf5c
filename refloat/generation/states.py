"""The life of a generation, as a table. Everything that affects its transitions is in this file.

An event with no entry for the present state is an error of ours (`IllegalTransitionError`) and
changes nothing. `docs/lifecycle.md` is generated from the table.
"""

from enum import StrEnum


class GenerationState(StrEnum):
    """Where one generation (one choice of one request) stands."""

    QUEUED = "queued"
    """Accepted; no worker has it."""
    DISPATCHED = "dispatched"
    """Sent to a worker; no output of this attempt yet."""
    RUNNING = "running"
    """This attempt has brought output."""
    PARKED = "parked"
    """Its worker is gone or it was preempted; it waits to go on from prompt + emitted ids."""
    DONE = "done"
    """Complete: a stop, or its length."""
    FAILED = "failed"
    """It had run and cannot go on."""
    CANCELLED = "cancelled"
    """Its client left, or a sibling of its request failed."""
    REJECTED = "rejected"
    """Never ran: refused by the queue, a deadline, or the engine's own checks."""


class GenerationEvent(StrEnum):
    """What can happen to a generation."""

    DISPATCH = "dispatch"
    """It is sent to a worker."""
    OUTPUT = "output"
    """Its worker sent ids."""
    FINISH = "finish"
    """It is complete."""
    LOSE = "lose"
    """Its worker is gone, or its account of it was wrong."""
    PREEMPT = "preempt"
    """It has to make room for others; nobody did anything wrong."""
    FAIL = "fail"
    """It cannot go on."""
    REJECT = "reject"
    """It is refused before its first token."""
    CANCEL = "cancel"
    """Nobody wants it any more."""


class IllegalTransitionError(Exception):
    """The table has no entry: a bug in the caller, never the client's doing."""


_S = GenerationState
_E = GenerationEvent

TRANSITIONS: dict[tuple[GenerationState, GenerationEvent], GenerationState] = {
    (_S.QUEUED, _E.DISPATCH): _S.DISPATCHED,
    (_S.QUEUED, _E.REJECT): _S.REJECTED,
    (_S.QUEUED, _E.CANCEL): _S.CANCELLED,
    (_S.DISPATCHED, _E.OUTPUT): _S.RUNNING,
    (_S.DISPATCHED, _E.LOSE): _S.PARKED,
    (_S.DISPATCHED, _E.PREEMPT): _S.PARKED,
    (_S.DISPATCHED, _E.REJECT): _S.REJECTED,
    (_S.DISPATCHED, _E.FAIL): _S.FAILED,
    (_S.DISPATCHED, _E.CANCEL): _S.CANCELLED,
    (_S.RUNNING, _E.OUTPUT): _S.RUNNING,
    (_S.RUNNING, _E.FINISH): _S.DONE,
    (_S.RUNNING, _E.LOSE): _S.PARKED,
    (_S.RUNNING, _E.PREEMPT): _S.PARKED,
    (_S.RUNNING, _E.FAIL): _S.FAILED,
    (_S.RUNNING, _E.CANCEL): _S.CANCELLED,
    (_S.PARKED, _E.DISPATCH): _S.DISPATCHED,
    (_S.PARKED, _E.FINISH): _S.DONE,
    (_S.PARKED, _E.FAIL): _S.FAILED,
    (_S.PARKED, _E.CANCEL): _S.CANCELLED,
}

TERMINAL: frozenset[GenerationState] = frozenset({_S.DONE, _S.FAILED, _S.CANCELLED, _S.REJECTED})


def next_state(state: GenerationState, event: GenerationEvent) -> GenerationState:
    """The state after `event`. Raises `IllegalTransitionError` for a pair the table lacks."""
    try:
        return TRANSITIONS[state, event]
    except KeyError:
        raise IllegalTransitionError(f"a {state} generation cannot {event}") from None


def failure_of(state: GenerationState) -> GenerationEvent:
    """How a generation fails from where it stands: one that never ran is rejected."""
    return GenerationEvent.REJECT if state is GenerationState.QUEUED else GenerationEvent.FAIL
