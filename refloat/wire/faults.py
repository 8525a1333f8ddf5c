"""The closed set of things that can happen to a worker, as evidence names them.

A fault kind says what was *observed*, never whose fault it was: callers are told in the terms of
`refloat.wire.problem`, and what the supervisor does about a kind is in `supervisor/lifecycle.py`.
"""

from enum import StrEnum


class FaultKind(StrEnum):
    """Why a worker or a prep process left service."""

    STEP_FAULT = "step_fault"
    """`step()` raised; the engine's state can no longer be trusted."""
    CONTEXT_FATAL = "context_fatal"
    """The device context is lost (`CL_OUT_OF_RESOURCES`, device lost, a sticky CUDA error)."""
    DEATH = "death"
    """The process ended: EOF, a signal, or an exit code nobody asked for."""
    OUT_OF_MEMORY = "out_of_memory"
    """Host or device memory ran out, by the kernel's or the engine's own word."""
    STALL = "stall"
    """Work was pending and progress stood still beyond its budget."""
    WRONG_OUTPUT = "wrong_output"
    """The probe's ids differ from those on record."""
    LOAD_FAILED = "load_failed"
    """The engine could not be built, but might be next time."""
    BAD_CONFIGURATION = "bad_configuration"
    """The engine can never be built from this configuration; a respawn would fail the same way."""
    PROTOCOL = "protocol"
    """Bytes on the wire that are not ours, or a message that is not legal in this state."""
    UNKILLABLE = "unkillable"
    """SIGKILL was sent and the process was not reaped in time."""
    MEMORY_LIMIT = "memory_limit"
    """It held more memory than it may, and was replaced before the kernel would have chosen whom."""
    OPERATOR = "operator"
    """Asked for: drain, restart, shutdown."""


#: Fragments of engine messages after which no further device call may be made. OpenVINO's own source
#: says that any OpenCL call after CL_OUT_OF_RESOURCES may hang, so destructors are not run either.
CONTEXT_FATAL_MARKS: tuple[str, ...] = (
    "CL_OUT_OF_RESOURCES",
    "CL_OUT_OF_HOST_MEMORY",
    "CL_DEVICE_NOT_AVAILABLE",
    "CL_INVALID_COMMAND_QUEUE",
    "CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST",
    "ZE_RESULT_ERROR_DEVICE_LOST",
    "ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY",
    "device lost",
    "device-side assert",
    "CUDA error",
    "an illegal memory access",
)


def is_context_fatal(message: str) -> bool:
    """Whether an engine's error text says that the device context itself is gone."""
    folded = message.casefold()
    return any(mark.casefold() in folded for mark in CONTEXT_FATAL_MARKS)
