"""What an incident's `incident.json` says: the record of one outage of one worker slot, as a schema.

Counts and names only: never a prompt's text, never a token id. `docs/OPERATIONS.md` lists these fields
(made from this file). Who writes the record is elsewhere.
"""

from typing import Any

import msgspec

from refloat.observe.device import DeviceFacts
from refloat.wire.faults import FaultKind

#: Raised when a field changes its meaning or goes; a reader refuses a newer one.
SCHEMA_VERSION = 1


class BatchEntry(msgspec.Struct, frozen=True):
    """One generation that the worker had."""

    generation: int
    """Its number in this gateway's life."""
    prompt_tokens: int
    """Of its original prompt."""
    emitted_tokens: int
    """How many the gateway had of it when the incident began."""
    in_step: bool
    """The progress page named it for the step under way."""


class Action(msgspec.Struct, frozen=True):
    """Something that was done, or waited for."""

    name: str
    """What: `detect`, `withdraw`, `kill`, `reap`, `backoff`, `spawn`, `load`, `probe` or `re-admit`."""
    worker_id: int
    """With which worker."""
    at_s: float
    """Seconds from the incident's opening to this action's begin; `detect` begins before it."""
    duration_s: float
    """Seconds it took."""


class Loss(msgspec.Struct, frozen=True):
    """One worker that was lost: the first is the incident's cause, others fell on the way back."""

    worker_id: int
    """0: it could not be started."""
    pid: int | None
    """Its process."""
    cause: FaultKind
    """What was observed of it."""
    reason: str
    """The same in a sentence."""
    state: str
    """The slot's state when it was detected."""
    at_s: float
    """Seconds from the incident's opening."""
    exit_status: int | None = None
    """Its exit code; negative: the signal that ended it. `null` until it is reaped."""


class KernelNote(msgspec.Struct, frozen=True):
    """A line of the kernel log that was understood."""

    kind: str
    """What it reports (see the kinds of kernel-log lines)."""
    line: str
    """As the kernel wrote it."""
    names_worker: bool
    """It names one of the workers that were lost."""


class Missing(msgspec.Struct, frozen=True):
    """Evidence that could not be had."""

    what: str
    """Which evidence."""
    why: str
    """The system's own words where it gave some."""


class Incident(msgspec.Struct, kw_only=True):
    """From a worker's loss until the slot serves again, or is given up."""

    schema: int = SCHEMA_VERSION
    """Version of this record."""
    id: str
    """Also the folder's name: UTC time, model, a short random part."""
    model: str
    """Name under which it is served."""
    opened: str
    """UTC time of the detection, ISO 8601."""
    closed: str | None = None
    """UTC time of the end; `null`: it lasts, or the gateway ended in the middle of it."""
    outcome: str | None = None
    """How the slot came out of it: `ready`, `failed`, `stuck` or `stopped`."""
    duration_s: float | None = None
    """Seconds from detection to the outcome."""
    worker_id: int
    """Of the worker that was lost."""
    pid: int | None
    """Its process; `null`: none could be started."""
    cause: FaultKind
    """What was observed (see the causes)."""
    reason: str
    """The cause in a sentence."""
    state: str
    """The slot's state when the fault was detected."""
    phase: str | None = None
    """What the worker was doing by its progress page."""
    step: int | None = None
    """Its step by the progress page, counted from the load."""
    step_tokens: int | None = None
    """Tokens that the phase had to compute."""
    batch: tuple[BatchEntry, ...] = ()
    """The generations that it had, in token counts."""
    exit_status: int | None = None
    """Exit code of the worker; negative: the signal that ended it."""
    losses: list[Loss] = []
    """Every worker lost in this incident; beyond 20 only the newest are kept."""
    losses_total: int = 0
    """How many those were in all."""
    actions: list[Action] = []
    """What was done, with durations; beyond 200 only the newest are kept."""
    generations: dict[str, str] = {}
    """By generation: `waiting`, `resumed`, `finished`, `failed` with the kind of problem, or
    `cancelled`."""
    kernel: list[KernelNote] = []
    """Kernel-log lines around it that were understood; `kernel.log` has all."""
    device: DeviceFacts
    """By OpenVINO's name and by PCI address, as far as that is known."""
    engine: str
    """The kind of engine."""
    versions: dict[str, str] = {}
    """Of the libraries in the worker, by its own word."""
    properties: dict[str, Any] = {}
    """What the engine was given."""
    rung: int = 0
    """The ladder's rung that the lost worker stood on; 0: as configured."""
    files: list[str] = []
    """Evidence beside this record."""
    missing: list[Missing] = []
    """What could not be had, and why."""
    hints: list[str] = []
    """What helped others in such a case."""

    def miss(self, what: str, why: str) -> None:
        """Put on record what could not be had, once."""
        missing = Missing(what, why)
        if missing not in self.missing:
            self.missing.append(missing)

    def keep(self, name: str) -> None:
        """Put a file on record, once."""
        if name not in self.files:
            self.files.append(name)


class IncidentSummary(msgspec.Struct, frozen=True):
    """One line of a list."""

    id: str
    model: str
    opened: str
    cause: str
    reason: str
    outcome: str | None = None
    duration_s: float | None = None
    generations: dict[str, str] = {}
    hints: list[str] = []


def encode_incident(incident: Incident) -> bytes:
    """As it stands in the folder."""
    return msgspec.json.format(msgspec.json.encode(incident, enc_hook=str), indent=2) + b"\n"


def decode_incident(data: bytes) -> Incident:
    """Raises `ValueError` for what is no incident, or one of a newer version."""
    incident = msgspec.json.decode(data, type=Incident)
    if incident.schema > SCHEMA_VERSION:
        raise ValueError(f"schema {incident.schema} is newer than this program ({SCHEMA_VERSION})")
    return incident
