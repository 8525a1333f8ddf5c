"""What all models of a server share of their host: the gate of loads, and devices out of use."""

from dataclasses import dataclass, field

from refloat.config.home import loads_dir
from refloat.supervisor.load_gate import LoadGate
from refloat.supervisor.quarantine import Quarantine


def _gate() -> LoadGate:
    return LoadGate(loads_dir())


@dataclass(frozen=True)
class HostShare:
    """One for a server."""

    quarantine: Quarantine = field(default_factory=Quarantine)
    gate: LoadGate = field(default_factory=_gate)
