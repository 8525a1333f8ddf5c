"""What the next worker of a model is told, for all of its slots: settings and what is left of the
fault plan. One for a model, so a fault that one worker has fired is spent for every other.
"""

from collections.abc import Callable

import msgspec

from refloat.faults.plan import spend
from refloat.wire.messages import EngineSpec


class SpecSource:
    """Holds the spec of the moment. Used on the event loop only."""

    def __init__(self, spec: EngineSpec) -> None:
        self.current = spec
        self._on_spent: list[Callable[[int, int], None]] = []

    def spent(self, worker_id: int, index: int) -> None:
        """This worker has fired entry `index` of the plan, or let its chance pass."""
        faults = spend(self.current.faults, index)
        self.current = msgspec.structs.replace(self.current, faults=faults)
        for listener in self._on_spent:
            listener(worker_id, index)

    def settle(self, spec: EngineSpec) -> None:
        """The next worker gets these settings; what is left of the fault plan stays as it is."""
        self.current = msgspec.structs.replace(spec, faults=self.current.faults)

    def on_spent(self, listener: Callable[[int, int], None]) -> None:
        """Have the other workers told: by whom, and which entry."""
        self._on_spent.append(listener)
