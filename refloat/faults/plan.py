"""Fault plans: what shall go wrong, where, and how often, as data. Who acts on one is elsewhere.

Read strictly, since a test whose fault is silently never fired proves nothing.
"""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Annotated, Any

import msgspec

NonNegative = Annotated[int, msgspec.Meta(ge=0)]


class FaultPlanError(ValueError):
    """A plan that cannot be meant; the message names the entry and the field."""


class FaultAt(StrEnum):
    """Where in a worker's life a fault happens."""

    LOAD = "load"
    """Before the engine is built."""
    PROBE = "probe"
    """In a step of the probe, before the worker is ready."""
    ADD = "add"
    """Before the engine takes a request."""
    STEP = "step"
    """Before a step that a matching request takes part in."""
    TOKEN = "token"
    """Before the step in which a generation gets the token with this number."""


class FaultAct(StrEnum):
    """What happens."""

    RAISE = "raise"
    """Raises an exception."""
    CONTEXT_FATAL = "context_fatal"
    """Raises with a text that says the device context is lost."""
    WEDGE = "wedge"
    """Raises now and at every later step. A real engine is wedged for real (one request id twice)."""
    WEDGE_GRAMMAR = "wedge_grammar"
    """The same; a real engine is given a grammar that it takes and cannot compile."""
    SEGV = "segv"
    """The worker dies of SIGSEGV."""
    ABORT = "abort"
    """The worker dies of SIGABRT, as after a C++ exception that nobody caught."""
    KILL = "kill"
    """The worker dies of SIGKILL, as by the kernel's OOM killer."""
    EXIT = "exit"
    """The worker leaves with exit code 1."""
    STOP = "stop"
    """The process is stopped, as by SIGSTOP: it lives, and hears nothing."""
    HANG = "hang"
    """Waits outside Python for `seconds`, or for ever; what was asked is then done."""
    SLOW = "slow"
    """Takes `seconds` longer (0.2 if not given)."""
    WRONG_OUTPUT = "wrong_output"
    """The ids of this step are others than the engine gave."""
    GARBAGE = "garbage"
    """Bytes on the wire that are no frame."""
    CLOSE_SOCKET = "close_socket"
    """Closes the link but lives on, doing nothing."""
    REFUSE = "refuse"
    """The engine will not take the request."""
    OOM = "oom"
    """Raises with a text that says memory ran out."""


class FaultEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One entry of a plan. Without `match` or `match_tokens` any request will do."""

    at: FaultAt
    """Where it happens."""
    kind: FaultAct
    """What happens."""
    token: NonNegative | None = None
    """With `at: token`: which generated token, counted from 0 at the end of the prompt."""
    match: str | None = None
    """Part of the prompt's text (scripted engine only)."""
    match_tokens: Annotated[list[int], msgspec.Meta(min_length=1)] | None = None
    """Ids that follow each other somewhere in the prompt."""
    times: NonNegative = 1
    """How often it still happens."""
    skip: NonNegative = 0
    """Chances that pass before it happens for the first time."""
    max_rung: NonNegative | None = None
    """It happens only up to this rung of the model's ladder; 0: only at full speed."""
    message: str | None = None
    """The engine's words, for the kinds that raise or refuse."""
    seconds: Annotated[float, msgspec.Meta(ge=0)] | None = None
    """With the kinds hang and slow."""

    @property
    def is_selective(self) -> bool:
        """Whether it waits for a certain request."""
        return self.match is not None or self.match_tokens is not None


#: Acts that make sense at certain places only.
_IN_SERVICE = frozenset({FaultAt.PROBE, FaultAt.ADD, FaultAt.STEP, FaultAt.TOKEN})
_ACT_PLACES: Mapping[FaultAct, frozenset[FaultAt]] = {
    FaultAct.REFUSE: frozenset({FaultAt.ADD}),
    FaultAct.WRONG_OUTPUT: frozenset({FaultAt.PROBE, FaultAt.STEP, FaultAt.TOKEN}),
    FaultAct.WEDGE: _IN_SERVICE,
    FaultAct.WEDGE_GRAMMAR: _IN_SERVICE,
}


def parse_plan(entries: Sequence[Mapping[str, Any]]) -> tuple[FaultEntry, ...]:
    """A plan from its configuration. Raises `FaultPlanError`."""
    return tuple(_parse_entry(index, entry) for index, entry in enumerate(entries))


def spend(entries: Sequence[Mapping[str, Any]], index: int) -> tuple[dict[str, Any], ...]:
    """The plan after entry `index` had a chance: what the next worker is given.

    Entries keep their places, so an index means the same to every worker. An unknown index changes
    nothing.
    """
    left = [dict(entry) for entry in entries]
    if 0 <= index < len(left):
        entry = left[index]
        field = "skip" if entry.get("skip") else "times"
        entry[field] = max(0, int(entry.get(field, 1)) - 1)
    return tuple(left)


def _parse_entry(index: int, entry: Mapping[str, Any]) -> FaultEntry:
    try:
        fault = msgspec.convert(entry, FaultEntry)
    except msgspec.ValidationError as error:
        raise FaultPlanError(f"faults[{index}]: {error}") from error
    for field, reason in _contradictions(fault):
        raise FaultPlanError(f"faults[{index}].{field}: {reason}")
    return fault


def _contradictions(fault: FaultEntry) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    if (fault.at is FaultAt.TOKEN) != (fault.token is not None):
        found.append(("token", "is needed with at: token, and only there"))
    if fault.seconds is not None and fault.kind not in (FaultAct.HANG, FaultAct.SLOW):
        found.append(("seconds", "belongs to the kinds hang and slow"))
    if fault.is_selective and fault.at in (FaultAt.LOAD, FaultAt.PROBE):
        field = "match" if fault.match is not None else "match_tokens"
        found.append((field, f"nothing can be matched at {fault.at}"))
    places = _ACT_PLACES.get(fault.kind)
    if places is not None and fault.at not in places:
        found.append(("kind", f"{fault.kind} is not possible at {fault.at}"))
    return found
