"""A worker's watch in made-up time: when a stall is found, the device asked, a cost learnt."""

from typing import cast

import pytest

from refloat.observe.process_stat import ProcessStat
from refloat.supervisor.child import Child
from refloat.supervisor.device_use import DeviceUse
from refloat.supervisor.exits import Fault
from refloat.supervisor.knobs import Knobs
from refloat.supervisor.lifecycle import WorkerEvent, WorkerState
from refloat.supervisor.prediction import StepCosts, StepShape
from refloat.supervisor.worker_watch import WorkerWatch
from refloat.wire.progress import Phase, Progress


class Bench:
    """A worker in a step, its watch, and a clock that moves from look to look."""

    def __init__(self, floor_s: float = 10.0, tokens: int = 1) -> None:
        self.now_s = 50.0
        self.cpu_s = 1.0
        self.cycles: int | None = None
        self.asked_device = 0
        self.step = 1
        self.tokens = tokens
        self.began_s = self.now_s
        self.pid = 7
        self.worker_id = 1
        self.is_stopped = False
        self.page: Progress | None = None
        self.ages: list[float] = []
        self.last: WorkerEvent | Fault | None = None
        self.knobs = Knobs().for_floor(floor_s)
        self.watch = WorkerWatch(
            self.knobs,
            load_timeout_s=600.0,
            stall_floor_s=floor_s,
            say_age=self.ages.append,
            clock=lambda: self.now_s,
            device_use=self._device_use,
        )
        self.look()

    def progress(self) -> Progress:
        if self.page is not None:
            return self.page
        begin_ns = int(self.began_s * 1e9)
        return Progress(Phase.STEPPING, self.step, self.tokens, begin_ns, self.step, (1,))

    def has_unread(self) -> bool:
        return False

    def look(
        self, state: WorkerState = WorkerState.READY, *, has_pending: bool = True
    ) -> WorkerEvent | Fault | None:
        child = cast("Child", _Standing(self))
        return self.watch.look(state, child, has_pending=has_pending)

    def seconds_until(
        self, kind: object, state: WorkerState = WorkerState.READY, *, has_pending: bool = True
    ) -> float:
        """Made-up seconds until a look has this outcome."""
        since_s = self.now_s
        while self.now_s - since_s < 1_000.0:
            self.now_s += self.knobs.poll_s
            if self.cycles is not None:
                self.cycles += 1
            outcome = self.last = self.look(state, has_pending=has_pending)
            if outcome is kind or (kind is Fault and isinstance(outcome, Fault)):
                return self.now_s - since_s
            if outcome is WorkerEvent.LATE:
                state = WorkerState.SUSPECT
        raise AssertionError("never")

    def _device_use(self, pid: int) -> DeviceUse:
        assert pid == self.pid
        self.asked_device += 1
        return {} if self.cycles is None else {("gpu", "drm-cycles-ccs"): self.cycles}


class _Standing:
    """The child as the watch sees it."""

    def __init__(self, bench: Bench) -> None:
        self.worker_id, self.pid = bench.worker_id, bench.pid
        self.process = self
        self.progress = bench.progress
        self.has_unread = bench.has_unread
        self._stat = ProcessStat(bench.cpu_s, is_stopped=bench.is_stopped)

    def stat(self) -> ProcessStat:
        return self._stat


@pytest.mark.parametrize("floor_s", [0.1, 0.3, 1.0, 10.0, 60.0])
def test_stall_is_found_within_its_floor_and_a_second_and_suspected_at_half(
    floor_s: float,
) -> None:
    bench = Bench(floor_s)
    late_s = bench.seconds_until(WorkerEvent.LATE)
    assert floor_s / 2 < late_s < floor_s
    assert floor_s < late_s + bench.seconds_until(Fault) < floor_s + 1.0


@pytest.mark.parametrize(
    ("state", "phase"),
    [
        (WorkerState.SPAWNING, Phase.STARTING),
        (WorkerState.LOADING, Phase.LOADING),
        (WorkerState.PROBING, Phase.PROBING),
        (WorkerState.READY, Phase.IDLE),
        (WorkerState.READY, Phase.STEPPING),
    ],
)
def test_worker_that_somebody_stops_is_found_within_the_floor_whatever_it_does(
    state: WorkerState, phase: Phase
) -> None:
    bench = Bench(floor_s=10.0, tokens=50_000)
    bench.page = Progress(phase, 1, 50_000, 0, 1, ())
    bench.look(state, has_pending=False)
    bench.is_stopped = True
    assert 10.0 < bench.seconds_until(Fault, state, has_pending=False) < 11.0
    assert isinstance(bench.last, Fault)
    assert "stopped by a signal" in bench.last.reason


def test_idle_worker_that_somebody_stops_is_suspected_at_half_and_well_again_once_it_runs() -> None:
    bench = Bench(floor_s=10.0)
    bench.page = Progress(Phase.IDLE, 1, 0, 0, 1, ())
    bench.look(has_pending=False)
    bench.is_stopped = True
    assert 5.0 < bench.seconds_until(WorkerEvent.LATE, has_pending=False) < 6.0
    bench.is_stopped = False
    bench.seconds_until(WorkerEvent.CAUGHT_UP, WorkerState.SUSPECT, has_pending=False)


def test_stall_without_any_sign_of_life_is_not_told_as_work() -> None:
    bench = Bench(floor_s=10.0)
    bench.cpu_s += 1.0
    bench.look()
    bench.now_s += bench.knobs.poll_s
    bench.cpu_s += 1.0
    bench.look()
    bench.seconds_until(Fault)
    assert isinstance(bench.last, Fault)
    assert "although" not in bench.last.reason


def test_device_is_asked_only_about_a_worker_that_stands_still() -> None:
    bench = Bench()
    for _ in range(100):
        bench.now_s += bench.knobs.poll_s
        bench.step += 1
        bench.look()
    assert bench.asked_device == 0
    bench.seconds_until(WorkerEvent.LATE)
    assert bench.asked_device > 0


def test_device_that_works_is_waited_for_until_the_cap() -> None:
    bench = Bench()
    bench.cycles = 1
    assert bench.seconds_until(Fault) > bench.knobs.step_cap_s


def test_step_seen_under_way_is_timed_by_its_frame_and_others_are_not() -> None:
    bench, costs = Bench(tokens=501), StepCosts()
    bench.watch.expect(costs)
    bench.look()
    bench.now_s += 5.0
    bench.watch.stepped(1)
    assert costs.predict(StepShape(500, 1)) == pytest.approx(5.0)
    bench.now_s += 90.0
    bench.watch.stepped(2)
    assert costs.predict(StepShape(500, 1)) == pytest.approx(5.0)


def test_step_as_slow_as_others_before_has_a_longer_budget() -> None:
    bench, costs = Bench(tokens=501), StepCosts()
    bench.watch.expect(costs)
    costs.observe(StepShape(500, 1), 20.0)
    assert 80.0 < bench.seconds_until(Fault) < 81.0


def test_compilation_that_is_known_to_come_is_allowed_for() -> None:
    bench = Bench()
    bench.watch.compile_s = lambda generations: 5.0 if generations == (1,) else 0.0
    assert 15.0 < bench.seconds_until(Fault) < 16.0


def test_next_worker_begins_with_a_clean_slate() -> None:
    bench = Bench()
    bench.seconds_until(WorkerEvent.LATE)
    bench.worker_id = 2
    bench.now_s += bench.knobs.poll_s
    assert bench.look() is None
    assert bench.ages[-1] < 1.0
