"""What a line of the kernel log means for a worker: GPU drivers, NVIDIA's, and the OOM killer. Pure.

Patterns match anywhere in a line, so a syslog file's prefix does not matter. Who is concerned by an
event is decided here too; reading the log is in `kernel_log.py`.
"""

import re
from dataclasses import dataclass
from enum import StrEnum

#: The name that every worker gives itself (`wire/child.py`); in the kernel at most 15 characters.
WORKER_NAME = "refloat-worker"
_LONGEST_LINE = 400


class KernelEventKind(StrEnum):
    """What the kernel reports."""

    GPU_RESET = "gpu_reset"
    """A driver found the GPU hung, or reset an engine or the whole of it."""
    JOB_TIMEOUT = "job_timeout"
    """A job or a fence was not done in time."""
    PAGE_FAULT = "page_fault"
    """The GPU touched memory that is not mapped; a reset often follows."""
    COREDUMP = "coredump"
    """A driver left a device coredump."""
    XID = "xid"
    """NVIDIA's driver reports an error."""
    OOM_KILL = "oom_kill"
    """The kernel ended a process because memory ran out."""
    SEGFAULT = "segfault"
    """A process touched memory that it may not, or ran into a trap."""
    OTHER = "other"
    """A GPU driver's or the OOM killer's line of no kind above."""


@dataclass(frozen=True, slots=True)
class KernelEvent:
    """One line, understood."""

    kind: KernelEventKind
    line: str
    """As the kernel wrote it, without control characters, shortened."""
    driver: str | None = None
    """`i915`, `xe`, `amdgpu`, `nvidia` or `None`."""
    address: str | None = None
    """PCI address of the device, in full and in lower case."""
    pid: int | None = None
    process: str | None = None
    """The process's name as the kernel knows it."""
    xid: int | None = None

    @property
    def is_fatal(self) -> bool:
        """Whether the device context of the process that is named is gone."""
        if self.kind is KernelEventKind.XID:
            return self.xid in _FATAL_XIDS
        return self.kind in (KernelEventKind.GPU_RESET, KernelEventKind.JOB_TIMEOUT)


@dataclass(frozen=True, slots=True)
class Subject:
    """A process of ours, as the kernel may name it."""

    pid: int
    address: str | None = None
    """PCI address of its device, if that is known."""
    name: str = WORKER_NAME


#: After these the process's channel is dead: engine and MMU faults, resets, a GPU lost, GSP trouble.
_FATAL_XIDS = frozenset({8, 13, 31, 32, 43, 45, 61, 62, 69, 74, 79, 94, 95, 109, 119, 120})

_DRIVER = re.compile(r"\b(?P<driver>i915|xe|amdgpu|NVRM|nvidia)\b")
_ADDRESS = re.compile(r"\b(?P<address>[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}(?:\.[0-7])?)\b", re.I)
#: Each names the process in its own way; the first that matches is taken.
_PROCESS = (
    # Any user may call a process `pid=1234`: the kernel's own number stands behind the name.
    re.compile(r"\bin (?P<process>.{1,15}) \[(?P<pid>\d+)\]$"),
    re.compile(r"Killed process (?P<pid>\d+) \((?P<process>[^)]*)\)"),
    re.compile(r"\btask=(?P<process>[^,]*),pid=(?P<pid>\d+)"),
    re.compile(r"reaped process (?P<pid>\d+) \((?P<process>[^)]*)\)"),
    re.compile(r"\bpid=(?P<pid>\d+)(?:, name=(?P<process>[^,\s]+))?"),
    re.compile(r"process (?P<process>\S+) pid:? (?P<pid>\d+)", re.I),
    re.compile(r"(?:^|\bin |[:\s])(?P<process>[\w.+-]{1,15}) ?\[(?P<pid>\d+)\]"),
)
_XID = re.compile(r"NVRM: Xid \(PCI:[^)]*\): (?P<xid>\d+)")

_K = KernelEventKind
#: The first pattern found in a line says its kind.
_KINDS: tuple[tuple[re.Pattern[str], KernelEventKind], ...] = (
    (_XID, _K.XID),
    (re.compile(r"Killed process \d+|oom-kill:"), _K.OOM_KILL),
    (re.compile(r"segfault at|general protection fault|traps: .*trap "), _K.SEGFAULT),
    (re.compile(r"coredump", re.I), _K.COREDUMP),
    (
        re.compile(r"timed ?out job|fence expiration|ring \S+ timeout|process information", re.I),
        _K.JOB_TIMEOUT,
    ),
    (re.compile(r"page fault|pagefault|faulted address|fault response", re.I), _K.PAGE_FAULT),
    (
        re.compile(
            r"GPU HANG|engine reset|GPU reset|context reset|GT reset|reset (?:started|queued)|"
            r"resetting (?:chip|[rbcv]c?cs|\w+ for)|trying reset|is wedged|device wedged|GPU recovery",
            re.I,
        ),
        _K.GPU_RESET,
    ),
)
#: Lines of these are kept although they are of no kind above.
_OOM_AROUND = re.compile(r"invoked oom-killer|out of memory|oom_reaper|Memory cgroup", re.I)


def parse_kernel_line(line: str) -> KernelEvent | None:
    """What a line reports; `None` for one that is nothing to us."""
    text = "".join(char if char.isprintable() else " " for char in line.strip())[:_LONGEST_LINE]
    driver = _DRIVER.search(text)
    kind = next((kind for pattern, kind in _KINDS if pattern.search(text)), None)
    is_processes = kind in (_K.OOM_KILL, _K.SEGFAULT)
    if driver is None and not is_processes and not _OOM_AROUND.search(text):
        return None
    address = _ADDRESS.search(text)
    xid = _XID.search(text)
    pid, process = _process_in(text)
    return KernelEvent(
        kind or _K.OTHER,
        text,
        driver=None if driver is None or is_processes else _driver_name(driver["driver"]),
        address=None if address is None else full_address(address["address"]),
        pid=pid,
        process=process,
        xid=None if xid is None else int(xid["xid"]),
    )


def full_address(address: str) -> str:
    """A PCI address with its function, in lower case: `0000:03:00.0`."""
    lower = address.lower()
    return lower if "." in lower else f"{lower}.0"


def concerns(event: KernelEvent, subject: Subject, *, knows_pids: bool) -> bool:
    """Whether an event names a process of ours.

    Seen from within a container the kernel's pids are others (`knows_pids` false): then the name
    has to do, and the device where both are known.
    """
    if knows_pids:
        return event.pid == subject.pid
    if event.process != subject.name:
        return False
    return None in (event.address, subject.address) or event.address == subject.address


def _process_in(text: str) -> tuple[int | None, str | None]:
    for pattern in _PROCESS:
        match = pattern.search(text)
        if match is not None:
            return int(match["pid"]), match["process"]
    return None, None


def _driver_name(found: str) -> str:
    return "nvidia" if found == "NVRM" else found
