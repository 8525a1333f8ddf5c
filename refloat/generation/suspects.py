"""Whose generation may have cost a worker its life, and what follows for it. Pure policy: generations
and positions come in, verdicts go out; who is sent where is decided elsewhere (`trials.py`).

The rules. The first fault that a generation takes part in changes nothing for it: it goes on with all
others. If it is in the batch of the next fault too, without having got past where it stood, it goes
on alone. A fault while it is alone costs it one more try, on a safer worker; a second one at the same
position convicts it. Two tokens past the position of its last fault it is suspected no longer. A loss
from outside (a signal that nobody here sent) says nothing about anybody.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from refloat.supervisor.fleet import Rebuild

#: Tokens past the position of its last fault that acquit a suspect.
ACQUITTED_AFTER = 2
#: Workers that one generation may cost while it is alone, at whatever positions.
MAX_LONE_FAULTS = 8

_CONVICTED_AFTER = 2


@dataclass(slots=True)
class _Suspect:
    """One generation that was in the batch of a fault and has not got past it."""

    position: int
    """Tokens it had emitted at its last fault."""
    faults: set[int] = field(default_factory=set[int])
    """Numbers of the faults that it took part in."""
    lone: int = 0
    """Faults at this position in which nobody else took part."""
    is_alone: bool = False
    """It may run only alone from now on."""
    had_safer: bool = False
    """It was given its try on a safer worker."""


class Verdict(NamedTuple):
    """What a loss comes to."""

    rebuild: Rebuild = Rebuild.SAME
    convicted: int | None = None
    """This generation by itself ends the process that works on it."""
    exhausted: int | None = None
    """This one cost too many workers, although each time it got a little further."""


_NOTHING = Verdict()


class Suspects:
    """The suspects of one model. One writer: the custody of its generations."""

    def __init__(self) -> None:
        self._suspects: dict[int, _Suspect] = {}
        self._faults = 0
        self._lone_faults: dict[int, int] = {}
        """By generation, as long as it lives."""
        self._is_round = False
        self._was_in_vain = False
        """The last round of lone runs ended without a conviction, and without a safer worker."""

    def __bool__(self) -> bool:
        """Whether anybody is under suspicion."""
        return bool(self._suspects)

    @property
    def alone(self) -> list[int]:
        """Those that may only run alone, in the order in which they should be tried: the youngest
        first, since what ran before it joined ran without a fault."""
        found = [g for g, suspect in self._suspects.items() if suspect.is_alone]
        return sorted(found, reverse=True)

    def must_be_alone(self, generation: int) -> bool:
        """Whether it may only run alone."""
        suspect = self._suspects.get(generation)
        return suspect is not None and suspect.is_alone

    def lost(
        self, running: Mapping[int, int], batch: Iterable[int], *, is_external: bool
    ) -> Verdict:
        """A worker is gone. `running`: the tokens emitted by each generation that it was running and
        that is still wanted; `batch`: those that its last step named, perhaps none."""
        named = set(batch)
        accused = [g for g in running if g in named] if named else list(running)
        if is_external or not accused:
            return _NOTHING
        self._faults += 1
        if len(named | running.keys()) == 1:
            return self._fault_alone(accused[0], running[accused[0]])
        is_repeat = False
        for generation in accused:
            is_known = generation in self._suspects
            is_repeat |= is_known
            suspect = self._accuse(generation, running[generation])
            suspect.is_alone |= is_known
        if not is_repeat:
            return _NOTHING
        return self._begin_round()

    def advanced(self, generation: int, position: int) -> bool:
        """It has emitted so many tokens. Whether that ends its time alone."""
        suspect = self._suspects.get(generation)
        if suspect is None or position < suspect.position + ACQUITTED_AFTER:
            return False
        self._acquit(generation)
        return suspect.is_alone

    def ended(self, generation: int) -> None:
        """It is over, in whatever way. Unknown ones do nothing."""
        self._lone_faults.pop(generation, None)
        self._acquit(generation)

    def _fault_alone(self, generation: int, position: int) -> Verdict:
        suspect = self._accuse(generation, position)
        suspect.lone += 1
        if suspect.lone >= _CONVICTED_AFTER and suspect.had_safer:
            self._take_blame(generation)
            return Verdict(Rebuild.CLEARED, convicted=generation)
        count = self._lone_faults[generation] = self._lone_faults.get(generation, 0) + 1
        if count >= MAX_LONE_FAULTS:
            self._take_blame(generation)
            return Verdict(Rebuild.CLEARED, exhausted=generation)
        if len(suspect.faults) == 1:
            return _NOTHING
        suspect.is_alone = suspect.had_safer = self._is_round = True
        return Verdict(Rebuild.SAFER)

    def _accuse(self, generation: int, position: int) -> _Suspect:
        suspect = self._suspects.setdefault(generation, _Suspect(position))
        if suspect.position != position:
            suspect.position, suspect.lone = position, 0
        suspect.faults.add(self._faults)
        return suspect

    def _begin_round(self) -> Verdict:
        """A batch fails although each of the last one could be run alone: then it is the load that
        is too much, and a safer worker for all."""
        was_in_vain, self._was_in_vain = self._was_in_vain, False
        self._is_round = True
        return Verdict(Rebuild.SAFER if was_in_vain else Rebuild.SAME)

    def _acquit(self, generation: int) -> None:
        suspect = self._suspects.pop(generation, None)
        if suspect is not None and self._is_round and not self.alone:
            self._is_round, self._was_in_vain = False, not suspect.had_safer

    def _take_blame(self, generation: int) -> None:
        """The culprit of all its faults is found: who was suspected for those alone need not be tried
        any more."""
        culprit = self._suspects.pop(generation)
        for number, suspect in list(self._suspects.items()):
            suspect.faults -= culprit.faults
            suspect.is_alone &= len(suspect.faults) > 1
            if not suspect.faults:
                del self._suspects[number]
        self._is_round, self._was_in_vain = bool(self.alone), False
