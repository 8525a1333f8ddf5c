"""Who serves, who is a spare, and what is published between the two. Slots are stood in for."""

from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from refloat.supervisor.fleet import ModelSnapshot, Rebuild, Replica, ReplicaLoss
from refloat.supervisor.lifecycle import WorkerState
from refloat.supervisor.spares import Lineup, Seat
from refloat.wire.faults import FaultKind
from refloat.wire.messages import Refused, Step
from refloat.wire.problem import Problem, ProblemKind

_S = WorkerState
_LOSS = ReplicaLoss(FaultKind.DEATH, "gone")


@dataclass
class Slot:
    """Implements `spares.Occupant`."""

    seat: Seat
    state: WorkerState = _S.SPAWNING
    rung: int = 0
    is_started: bool = True
    is_dead: bool = False
    retired: list[str] = field(default_factory=list[str])
    told_to_go_on: int = 0

    def has_exited(self) -> bool:
        return self.is_dead

    def go_on(self) -> None:
        self.told_to_go_on += 1

    def retire(self, reason: str) -> None:
        self.retired.append(reason)


@dataclass(frozen=True)
class Worker:
    worker_id: int


class Model:
    """A line-up, its slots, and everything that dispatch and the fleet were told, in order."""

    def __init__(self, slots: int = 2, **options: Any) -> None:
        self.told: list[tuple[str, Any]] = []
        self.rung = 0
        self.rebuild = Rebuild.SAME
        self.lineup = Lineup(self, self.publish, wanted_rung=lambda: self.rung, **options)
        self.slots: list[Slot] = []
        for _ in range(slots):
            seat = self.lineup.add_seat()
            slot = Slot(seat)
            seat.occupant = slot
            self.slots.append(slot)
        self.ids = 0

    def publish(self) -> None:
        self.told.append(("published", self.lineup.state))

    def becomes_ready(self, number: int) -> int:
        """As a slot does it: first the state is published, then the listener is told."""
        self.ids += 1
        slot = self.slots[number]
        slot.state = _S.READY
        self.publish()
        slot.seat.replica_ready(cast("Replica", Worker(self.ids)))
        return self.ids

    def is_lost(self, number: int) -> None:
        slot = self.slots[number]
        slot.state = _S.EXITED
        self.publish()
        slot.seat.replica_lost(0, _LOSS)
        self.lineup.take_over()

    def replica_ready(self, replica: Replica) -> None:
        self.told.append(("ready", replica.worker_id))

    def replica_step(self, worker_id: int, step: Step) -> None:
        self.told.append(("step", worker_id))

    def replica_refused(self, worker_id: int, refused: Refused) -> None:
        self.told.append(("refused", worker_id))

    def replica_suspect(self, worker_id: int, *, suspect: bool) -> None:
        self.told.append(("suspect", suspect))

    def replica_lost(self, worker_id: int, loss: ReplicaLoss) -> Rebuild:
        self.told.append(("lost", self.lineup.state))
        return self.rebuild

    def model_changed(self, snapshot: ModelSnapshot) -> None:
        self.told.append(("changed", snapshot))


def test_lineup_first_to_be_ready_serves_and_the_second_is_told_to_nobody() -> None:
    model = Model()
    first = model.becomes_ready(1)
    model.becomes_ready(0)
    assert [event for event in model.told if event[0] == "ready"] == [("ready", first)]
    assert model.lineup.serving is model.slots[1].seat


def test_lineup_is_published_ready_before_work_can_be_sent_and_not_before_somebody_serves() -> None:
    model = Model()
    model.becomes_ready(0)
    assert model.told == [("published", _S.PROBING), ("published", _S.READY), ("ready", 1)]


def test_lineup_spare_takes_over_after_dispatch_was_told_and_nothing_says_ready_between() -> None:
    model = Model()
    model.becomes_ready(0)
    spare = model.becomes_ready(1)
    model.told.clear()
    model.is_lost(0)
    assert model.told == [
        ("published", _S.EXITED),
        ("lost", _S.EXITED),
        ("published", _S.READY),
        ("ready", spare),
    ]


def test_lineup_loss_of_a_spare_is_told_to_nobody_and_changes_nothing() -> None:
    model = Model()
    model.becomes_ready(0)
    model.becomes_ready(1)
    model.told.clear()
    model.is_lost(1)
    assert model.told == [("published", _S.READY)]
    assert model.lineup.serving is model.slots[0].seat


def test_lineup_spare_that_is_known_dead_does_not_take_over() -> None:
    model = Model()
    model.becomes_ready(0)
    model.becomes_ready(1)
    model.slots[1].is_dead = True
    model.is_lost(0)
    assert model.lineup.serving is None
    assert model.lineup.state is not _S.READY


def test_lineup_what_a_spare_says_reaches_nobody() -> None:
    model = Model()
    model.becomes_ready(0)
    model.becomes_ready(1)
    model.told.clear()
    refused = Refused(1, 1, Problem(ProblemKind.OVERLOADED, "full"))
    for number in (1, 0):
        seat = model.slots[number].seat
        seat.replica_step(number, Step(1, ()))
        seat.replica_refused(number, refused)
        seat.replica_suspect(number, suspect=True)
    assert model.told == [("step", 0), ("refused", 0), ("suspect", True)]


def test_lineup_spare_with_settings_that_are_no_longer_safe_enough_is_replaced() -> None:
    model = Model()
    model.becomes_ready(0)
    model.becomes_ready(1)
    model.rung = 1
    model.is_lost(0)
    assert model.lineup.serving is None
    assert len(model.slots[1].retired) == 1
    model.slots[0].rung = 1
    safer = model.becomes_ready(0)
    assert model.told[-1] == ("ready", safer)


@pytest.mark.parametrize("state", [_S.LOADING, _S.PROBING])
def test_lineup_spare_on_the_way_with_such_settings_is_not_waited_for(state: WorkerState) -> None:
    model = Model()
    model.becomes_ready(0)
    model.slots[1].state = state
    model.is_lost(0)
    assert model.slots[1].retired == []
    model.becomes_ready(0)
    model.rung = 1
    model.is_lost(0)
    assert len(model.slots[1].retired) == 1


def test_lineup_spare_that_is_safer_than_asked_for_will_do() -> None:
    model = Model()
    model.becomes_ready(0)
    model.slots[1].rung = 2
    spare = model.becomes_ready(1)
    model.is_lost(0)
    assert model.told[-1] == ("ready", spare)


def test_lineup_that_closes_lets_nobody_take_over() -> None:
    model = Model()
    model.becomes_ready(0)
    model.becomes_ready(1)
    model.lineup.is_closing = True
    model.is_lost(0)
    assert model.lineup.serving is None


@pytest.mark.parametrize(
    ("states", "leading"),
    [
        ((_S.EXITED, _S.LOADING), 1),
        ((_S.BACKOFF, _S.FAILED), 0),
        ((_S.STUCK, _S.FAILED), 1),
        ((_S.SPAWNING, _S.PROBING), 1),
    ],
)
def test_lineup_without_a_serving_worker_is_as_its_nearest(
    states: tuple[WorkerState, WorkerState], leading: int
) -> None:
    model = Model()
    for slot, state in zip(model.slots, states, strict=True):
        slot.state = state
    assert model.lineup.state is states[leading]
    assert model.lineup.leading is model.slots[leading].seat


def test_lineup_slot_that_was_not_started_does_not_count() -> None:
    model = Model()
    model.slots[0].state, model.slots[1].is_started = _S.BACKOFF, False
    assert model.lineup.state is _S.BACKOFF


def test_lineup_suspect_that_serves_is_suspect_whatever_the_spare_is() -> None:
    model = Model()
    model.becomes_ready(0)
    model.becomes_ready(1)
    model.slots[0].state = _S.SUSPECT
    assert model.lineup.state is _S.SUSPECT


def test_lineup_primed_spare_loads_only_when_nobody_serves_and_then_alone() -> None:
    model = Model(is_primed=True)
    first, second = (slot.seat for slot in model.slots)
    for slot in model.slots:
        slot.state = _S.LOADING
    assert model.lineup.is_wanted(first)
    assert not model.lineup.is_wanted(second)
    model.becomes_ready(0)
    assert not model.lineup.is_wanted(second)
    model.is_lost(0)
    assert model.slots[1].told_to_go_on == 1
    assert model.lineup.is_wanted(second)
    model.slots[0].state = _S.LOADING
    assert not model.lineup.is_wanted(first)


def test_lineup_primed_spare_takes_the_place_of_one_that_fails_to_load() -> None:
    model = Model(is_primed=True)
    first, second = model.slots
    first.state = second.state = _S.LOADING
    assert model.lineup.is_wanted(first.seat)
    first.state = _S.EXITED
    assert model.lineup.is_wanted(second.seat)
    first.state = _S.LOADING
    assert not model.lineup.is_wanted(first.seat)


def test_lineup_loaded_spares_are_always_wanted() -> None:
    model = Model()
    model.becomes_ready(0)
    assert all(model.lineup.is_wanted(slot.seat) for slot in model.slots)
