"""Whether a child that introduces itself is the one that was started. Pure."""

from refloat.supervisor.exits import Fault
from refloat.supervisor.lifecycle import WorkerEvent, WorkerState
from refloat.wire.faults import FaultKind
from refloat.wire.messages import PROTOCOL_VERSION, Hello


def judge_hello(program: str, state: WorkerState, hello: Hello) -> WorkerEvent | Fault:
    """The event that a `Hello` is, or why it is none."""
    if state is not WorkerState.SPAWNING:
        return unexpected(program, state, hello)
    if hello.program != program:
        reason = f"a {hello.program} process answered where a {program} was started"
        return Fault(FaultKind.PROTOCOL, reason)
    if hello.version != PROTOCOL_VERSION:
        # The package was changed under a running server: no respawn will bring the old one back.
        reason = (
            f"the {program} process speaks protocol {hello.version}, this server "
            f"{PROTOCOL_VERSION}: restart the server"
        )
        return Fault(FaultKind.BAD_CONFIGURATION, reason)
    return WorkerEvent.HELLO


def unexpected(program: str, state: WorkerState, message: object) -> Fault:
    """A message that is not legal in this state."""
    kind = type(message).__name__
    return Fault(FaultKind.PROTOCOL, f"the {program} process sent {kind} while {state}")
