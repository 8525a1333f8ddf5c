"""What an engine's error texts mean, and the part of them that people should read. Pure."""

import re

from refloat.engines.base import EngineFaultError, LoadError
from refloat.wire.faults import is_context_fatal

_EXCEPTION_FROM = re.compile(r"Exception from [^\n]*?:\d+:[ \t]*\n?")
_CHECK_FAILED = re.compile(r"Check '([^\n]*)' failed at [^\n]*?:\d+:[ \t]*\n?")
_FILE_PATH = re.compile(r"(?:/[^\s/\"':]+)+/([^\s/\"':]+\.(?:so|cpp|hpp|h|cl)\b)")
_SPACE = re.compile(r"\s+")

_OUT_OF_MEMORY_MARKS = (
    "bad_alloc",
    "bad allocation",
    "cannot allocate memory",
    "out of memory",
    "memoryerror",
    "out_of_device_memory",
    "out_of_host_memory",
    "more memory than available",
    "larger than available memory",
    "exceeded max size of memory",
    "cl_mem_object_allocation_failure",
)

#: Texts after which another try with the same configuration ends the same way.
_PERMANENT_MARKS = (
    "could not find a model in the directory",
    "is not registered in the openvino runtime",
    "unsupported property",
    "wrong value",
    "cannot load library",
    "incorrect weights in bin file",
    "pugi::status_ok",
    "unable to read the model",
    "no supported cache types",
)


def clean_message(text: str) -> str:
    """An engine's message without the paths of the machine it was built on, on one line.

    A failed check keeps its condition only if there is nothing else to say.
    """
    conditions = _CHECK_FAILED.findall(text)
    kept = _CHECK_FAILED.sub("", _EXCEPTION_FROM.sub("", text))
    kept = _SPACE.sub(" ", _FILE_PATH.sub(r"\1", kept)).strip()
    if kept:
        return kept
    if conditions:
        return f"Check '{conditions[-1]}' failed"
    return "the engine gave no reason"


def is_out_of_memory(text: str) -> bool:
    """Whether an error text says that host or device memory ran out."""
    folded = text.casefold()
    return any(mark in folded for mark in _OUT_OF_MEMORY_MARKS)


def load_error(error: Exception) -> LoadError:
    """What an exception during a load means."""
    text = str(error)
    out_of_memory = isinstance(error, MemoryError) or is_out_of_memory(text)
    folded = text.casefold()
    permanent = not out_of_memory and any(mark in folded for mark in _PERMANENT_MARKS)
    message = clean_message(text) if text.strip() else type(error).__name__
    return LoadError(message, permanent=permanent, out_of_memory=out_of_memory)


def fault_error(error: Exception) -> EngineFaultError:
    """What an exception during a step means."""
    text = str(error) or type(error).__name__
    return EngineFaultError(clean_message(text), context_fatal=is_context_fatal(text))
