"""What a child's end means: evidence in, a fault's kind and a sentence for people out. Pure.

A signal that nobody here sent convicts nobody: it is a death, whatever one may guess behind it.
"""

import signal
from typing import NamedTuple

from refloat.wire.exit_codes import ChildExit
from refloat.wire.faults import FaultKind
from refloat.wire.link import LinkEnd
from refloat.wire.messages import LoadFailed, WorkerFault

_LONGEST_REASON = 500

_LOAD_KINDS = frozenset(
    {FaultKind.LOAD_FAILED, FaultKind.OUT_OF_MEMORY, FaultKind.BAD_CONFIGURATION}
)
#: A process earns these by itself; every other signal was sent by somebody.
_OWN_SIGNALS = frozenset(
    {
        signal.SIGSEGV,
        signal.SIGABRT,
        signal.SIGBUS,
        signal.SIGILL,
        signal.SIGFPE,
        signal.SIGTRAP,
        signal.SIGSYS,
    }
)


class Fault(NamedTuple):
    """Why a child is out of service."""

    kind: FaultKind
    reason: str
    """A sentence for people, without a final full stop."""
    is_final_word: bool = True
    """False for a mere EOF: the exit code, once known, says more."""
    is_external: bool = False
    """By a signal that nobody here sent and that the process did not earn by itself. Where the
    kernel explains it (memory ran out), it is another fault."""

    @property
    def deserves_grace(self) -> bool:
        """Whether a moment before SIGKILL can bring evidence: an exit code, or a hung child's
        stacks."""
        return not self.is_final_word or self.kind is FaultKind.STALL


def explain_exit(program: str, returncode: int, *, we_killed: bool) -> Fault:
    """A process that ended. `returncode` as `subprocess` has it: negative for a signal."""
    if returncode < 0:
        number = -returncode
        return Fault(
            FaultKind.DEATH,
            _signal_sentence(program, number, we_killed=we_killed),
            is_external=not we_killed and number not in _OWN_SIGNALS,
        )
    sentence = f"the {program} process left with exit code {returncode}"
    match returncode:
        case ChildExit.ASKED:
            return Fault(FaultKind.DEATH, f"{sentence} although nobody asked it to")
        case ChildExit.INTERNAL:
            return Fault(FaultKind.DEATH, f"{sentence}: an unexpected error (its text is logged)")
        case ChildExit.LOAD_FAILED:
            return Fault(FaultKind.LOAD_FAILED, f"{sentence}: it could not load")
        case ChildExit.PROTOCOL:
            return Fault(FaultKind.PROTOCOL, f"{sentence}: it could not understand the gateway")
        case ChildExit.ORPHANED:
            return Fault(FaultKind.DEATH, f"{sentence}: it took the gateway for gone")
        case _:
            return Fault(FaultKind.DEATH, f"{sentence}, which is none of ours")


def explain_end(program: str, end: LinkEnd, detail: str) -> Fault:
    """A link that ended while its process may still live."""
    match end:
        case LinkEnd.EOF | LinkEnd.TORN:
            reason = f"the {program} process closed its link"
            return Fault(FaultKind.DEATH, reason, is_final_word=False)
        case LinkEnd.GARBAGE:
            reason = f"the {program} process sent what is not ours: {detail}"
            return Fault(FaultKind.PROTOCOL, _shortened(reason))
        case LinkEnd.OVERFLOW:
            return Fault(FaultKind.STALL, f"the {program} process does not read: {detail}")


def explain_worker_fault(fault: WorkerFault) -> Fault:
    """A worker's last words."""
    return Fault(fault.kind, _shortened(f"the engine failed while {fault.phase}: {fault.message}"))


def explain_load_failed(failed: LoadFailed) -> Fault:
    """A load that was given up. A kind that is none of a load's counts as plain failure."""
    kind = failed.kind if failed.kind in _LOAD_KINDS else FaultKind.LOAD_FAILED
    return Fault(kind, _shortened(failed.message or "the engine could not be built"))


def _signal_sentence(program: str, number: int, *, we_killed: bool) -> str:
    try:
        name = signal.Signals(number).name
    except ValueError:
        name = f"signal {number}"
    if we_killed and number == signal.SIGKILL:
        return f"the {program} process had to be killed"
    sentence = f"the {program} process was ended by {name}"
    if number == signal.SIGKILL:
        return f"{sentence}, which nobody here sent (the kernel does so when memory runs out)"
    return sentence


def _shortened(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= _LONGEST_REASON else flat[: _LONGEST_REASON - 1] + "…"
