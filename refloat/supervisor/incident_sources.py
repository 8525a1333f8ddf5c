"""Where a gateway's incidents take their evidence from and put it: one set for all its models."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from refloat.config.home import incidents_dir
from refloat.config.schema import ServerConfig
from refloat.observe.coredump import CoredumpFinder
from refloat.observe.incidents import IncidentStore
from refloat.observe.kernel_log import KernelLog
from refloat.supervisor.replica import Share
from refloat.wire.messages import EngineSpec


class Particulars(NamedTuple):
    """What an incident has to know of the worker of the moment."""

    spec: EngineSpec
    versions: dict[str, str]
    shares: tuple[Share, ...] = ()


@dataclass(frozen=True)
class IncidentSources:
    """Paths are those of this machine, unless a test says otherwise."""

    store: IncidentStore
    kernel: KernelLog = field(default_factory=KernelLog)
    coredumps: CoredumpFinder = field(default_factory=CoredumpFinder)
    sys_root: Path = Path("/sys")
    proc_root: Path = Path("/proc")
    late_kernel_s: float = 0.1
    """How long after a death the kernel's word on it is waited for; nobody else waits meanwhile."""
    late_coredump_s: float = 5.0
    """After an incident: a driver that writes its coredump late."""
    file_deadline_s: float = 10.0
    """For writing what is small."""
    coredump_deadline_s: float = 60.0


def default_sources() -> IncidentSources:
    """Evidence of this machine, in this user's folder."""
    return IncidentSources(IncidentStore(incidents_dir()))


def sources_for(server: ServerConfig) -> IncidentSources:
    """The same, as a server's settings have it. Its kernel log has to be started."""
    store = IncidentStore(
        incidents_dir(),
        max_incidents=server.max_incidents,
        max_total_bytes=server.max_incident_bytes,
    )
    return IncidentSources(store, KernelLog(Path(server.kernel_log)))
