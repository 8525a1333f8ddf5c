"""What helped others: patterns of faults and the settings that stopped them, in one table. Pure."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from refloat.observe.kernel_lines import KernelEvent, KernelEventKind
from refloat.wire.faults import FaultKind

_K = KernelEventKind
_LOADING = frozenset({"spawning", "loading", "probing"})
_INTEL = frozenset({"i915", "xe"})


@dataclass(frozen=True, slots=True)
class Case:
    """What is known when hints are looked for."""

    cause: FaultKind
    state: str
    """The slot's state at detection."""
    words: str = ""
    """The reason and the end of stderr: where engines say what ails them."""
    device: str = "CPU"
    is_external: bool = False
    """A signal that nobody here sent and no kernel line explains."""
    kernel_is_readable: bool = True
    kernel: tuple[KernelEvent, ...] = ()

    @property
    def is_loading(self) -> bool:
        """It had not served yet."""
        return self.state in _LOADING

    def says(self, *marks: str) -> bool:
        """Whether the engine's words hold one of these."""
        folded = self.words.casefold()
        return any(mark.casefold() in folded for mark in marks)

    def saw(self, kinds: Iterable[KernelEventKind], drivers: Iterable[str] | None = None) -> bool:
        """Whether the kernel reported one of these kinds, by one of these drivers."""
        wanted = set(kinds)
        names = None if drivers is None else set(drivers)
        return any(e.kind in wanted and (names is None or e.driver in names) for e in self.kernel)


@dataclass(frozen=True, slots=True)
class Hint:
    """One row."""

    pattern: str
    """For the documents."""
    applies: Callable[[Case], bool]
    advice: str


HINTS: tuple[Hint, ...] = (
    Hint(
        "GPU hang, reset or fence time-out in the kernel log (Intel)",
        lambda case: case.saw((_K.GPU_RESET, _K.JOB_TIMEOUT), _INTEL),
        "the GPU hung: plugin_config GPU_ENABLE_SDPA_OPTIMIZATION=false has stopped such hangs on "
        "Arc A-series cards, at some cost in speed",
    ),
    Hint(
        "`CL_OUT_OF_RESOURCES` from the engine",
        lambda case: case.says("CL_OUT_OF_RESOURCES"),
        "long prompts are what most often leads to this: try a smaller max_num_batched_tokens",
    ),
    Hint(
        "memory ran out while loading",
        lambda case: case.cause is FaultKind.OUT_OF_MEMORY and case.is_loading,
        "plugin_config ENABLE_WEIGHTLESS=true keeps weights out of host memory during a load; a "
        "smaller cache_size leaves more for them",
    ),
    Hint(
        "memory ran out while serving",
        lambda case: case.cause is FaultKind.OUT_OF_MEMORY and not case.is_loading,
        "a smaller cache_size, or plugin_config KV_CACHE_PRECISION=u8, leaves more free",
    ),
    Hint(
        "device memory ran out by the engine's words",
        lambda case: case.says("OUT_OF_DEVICE_MEMORY", "CL_OUT_OF_HOST_MEMORY", "MEM_OBJECT_ALLOC"),
        "model and KV cache do not fit the device together: a smaller cache_size, or plugin_config "
        "KV_CACHE_PRECISION=u8",
    ),
    Hint(
        "`unfinished GenerationStatus`",
        lambda case: case.says("unfinished GenerationStatus"),
        "the continuous-batching engine lost account of a generation: another kind of engine, where "
        "the model has one, does not go this way",
    ),
    Hint(
        "an assertion in the block manager",
        lambda case: case.says("m_block_table", "block_manager"),
        "the engine's cache ran full against its own account: fewer max_num_seqs, or more blocks",
    ),
    Hint(
        "a stall while loading or compiling",
        lambda case: case.cause is FaultKind.STALL and case.is_loading,
        "a load that is slow and not dead needs a larger load_timeout_s; CACHE_DIR keeps compiled "
        "kernels, so that the next load is short",
    ),
    Hint(
        "a stall on a GPU that no kernel line explains",
        lambda case: (
            case.cause is FaultKind.STALL
            and not case.is_loading
            and "GPU" in case.device.upper()
            and not case.saw((_K.GPU_RESET, _K.JOB_TIMEOUT))
        ),
        "new shapes are compiled in mid-service: set CACHE_DIR, or a larger stall_floor_s if steps "
        "are slow and not hung",
    ),
    Hint(
        "Xid 79: the GPU has fallen off the bus",
        lambda case: any(event.xid == 79 for event in case.kernel),
        "the card does not answer on its bus any more: power, seat and temperature first",
    ),
    Hint(
        "a signal that nobody here sent, and no kernel log to ask",
        lambda case: case.is_external and not case.kernel_is_readable,
        "whether the OOM killer did this cannot be told: let the server read /dev/kmsg",
    ),
    Hint(
        "a signal that nobody here sent, and the kernel log says nothing",
        lambda case: case.is_external and case.kernel_is_readable,
        "somebody or something on this machine sends signals to workers",
    ),
    Hint(
        "the probe brought other ids than those on record",
        lambda case: case.cause is FaultKind.WRONG_OUTPUT,
        "after a wanted change that the versions do not show, accept the new answer with a reset; "
        "else distrust the device",
    ),
    Hint(
        "a process that SIGKILL does not end",
        lambda case: case.cause is FaultKind.UNKILLABLE,
        "a driver holds the process in the kernel: stacks.txt says where; the device is not used "
        "again before the machine or the driver is restarted",
    ),
)


def hints_for(case: Case) -> list[str]:
    """All that apply, in the table's order."""
    return [hint.advice for hint in HINTS if hint.applies(case)]
