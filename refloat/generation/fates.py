"""What became of generations that an incident touched, told to whoever keeps incidents.

Only words for people pass here; nothing is decided by them. A generation that no incident touched
costs nothing.
"""

from typing import Protocol

from refloat.generation.states import GenerationState


class IncidentPort(Protocol):
    """Where incidents are kept. Returns at once; unknown incidents are ignored."""

    def outcome(self, incident_id: str, generation: int, text: str) -> None:
        """What is known of a generation of that incident; the last word counts."""
        ...


RESUMED = "resumed"
WAITING = "waiting"
_ENDED = {
    GenerationState.DONE: "finished",
    GenerationState.CANCELLED: "cancelled",
    GenerationState.FAILED: "failed",
    GenerationState.REJECTED: "failed",
}


class Fates:
    """Of one model's generations, while they last."""

    def __init__(self) -> None:
        self.port: IncidentPort | None = None
        self._touched: dict[int, list[str]] = {}
        self._waiting: set[int] = set()

    def touched(self, generation: int, incident_id: str | None) -> None:
        """It has lost its worker."""
        if incident_id is None:
            return
        known = self._touched.setdefault(generation, [])
        if incident_id not in known:
            known.append(incident_id)
        self._waiting.add(generation)
        self._tell(generation, WAITING)

    def advanced(self, generation: int) -> None:
        """It has new tokens."""
        if generation in self._waiting:
            self._waiting.discard(generation)
            self._tell(generation, RESUMED)

    def ended(self, generation: int, state: GenerationState, why: str | None = None) -> None:
        """It is in this final state; `why`: the kind of problem."""
        if generation not in self._touched:
            return
        word = _ENDED.get(state, state.value)
        is_failure = word == "failed" and why is not None
        self._tell(generation, f"{word}: {why}" if is_failure else word)
        del self._touched[generation]
        self._waiting.discard(generation)

    def incident_of(self, generation: int) -> str | None:
        """The last incident that touched it."""
        known = self._touched.get(generation)
        return known[-1] if known else None

    def _tell(self, generation: int, text: str) -> None:
        if self.port is not None:
            for incident_id in self._touched[generation]:
                self.port.outcome(incident_id, generation, text)
