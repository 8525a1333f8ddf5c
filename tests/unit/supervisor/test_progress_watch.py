"""Progress judged from outside, with readings made up."""

import pytest

from refloat.supervisor.watch import Budget, Reading, Verdict, Watch, is_working
from refloat.wire.progress import Phase, Progress

_BUDGET = Budget(floor_s=10.0, cap_s=180.0)


class Patient:
    """A child whose page and processor time a test moves by hand; one reading a second."""

    def __init__(self) -> None:
        self.now_s = 100.0
        self.phase = Phase.STEPPING
        self.beats = 1
        self.cpu_s: float | None = 5.0
        self.has_pending = True
        self.has_unread = False
        self.device_cycles: int | None = None
        self.watch = Watch(self.now_s)
        self.look()

    def look(self, seconds: float = 0.0) -> Verdict:
        self.now_s += seconds
        page = Progress(self.phase, 1, 1, 0, self.beats, ())
        cycles = self.device_cycles
        reading = Reading(
            self.now_s,
            page,
            self.cpu_s,
            self.has_pending,
            has_unread=self.has_unread,
            device_use=None if cycles is None else {("gpu", "drm-cycles-ccs"): cycles},
        )
        return self.watch.judge(reading, _BUDGET, longest_gap_s=1.0)

    def wait(self, seconds: int, *, cpu_s: float = 0.0, cycles: int = 0) -> Verdict:
        verdict = Verdict.WELL
        for _ in range(seconds):
            if self.device_cycles is not None:
                self.device_cycles += cycles
            if self.cpu_s is not None:
                self.cpu_s += cpu_s
            verdict = self.look(1.0)
        return verdict


def test_watch_step_without_any_progress_is_late_then_stalled() -> None:
    patient = Patient()
    assert patient.wait(5) is Verdict.WELL
    assert patient.wait(1) is Verdict.LATE
    assert patient.wait(4) is Verdict.LATE
    assert patient.wait(1) is Verdict.STALLED


def test_watch_a_beat_makes_it_well_again() -> None:
    patient = Patient()
    assert patient.wait(8) is Verdict.LATE
    patient.beats += 1
    assert patient.wait(1) is Verdict.WELL


def test_watch_long_prefill_with_processor_time_lives_sixty_seconds() -> None:
    patient = Patient()
    assert patient.wait(60, cpu_s=0.01) is Verdict.WELL


def test_watch_step_that_only_burns_time_is_stalled_at_the_cap() -> None:
    patient = Patient()
    assert patient.wait(91, cpu_s=1.0) is Verdict.LATE
    assert patient.wait(89, cpu_s=1.0) is Verdict.LATE
    assert patient.wait(1, cpu_s=1.0) is Verdict.STALLED


def test_watch_step_on_a_device_that_works_lives_without_processor_time() -> None:
    patient = Patient()
    patient.device_cycles = 1_000
    assert patient.wait(60, cycles=5) is Verdict.WELL
    assert patient.wait(11) is Verdict.STALLED


def test_watch_step_on_a_device_is_stalled_at_the_cap_like_any_other() -> None:
    patient = Patient()
    patient.device_cycles = 1_000
    assert patient.wait(181, cycles=5) is Verdict.STALLED


def test_watch_device_that_was_not_looked_at_for_a_while_is_no_sign_of_life() -> None:
    patient = Patient()
    patient.device_cycles = 1_000
    patient.wait(2)
    patient.device_cycles = None
    patient.wait(2)
    patient.device_cycles = 9_000
    assert patient.wait(7) is Verdict.STALLED


def test_watch_worker_blocked_by_a_gateway_that_does_not_read_is_never_late() -> None:
    patient = Patient()
    patient.phase, patient.has_unread = Phase.SENDING, True
    assert patient.wait(3_600) is Verdict.WELL
    patient.has_unread = False
    assert patient.wait(11) is Verdict.STALLED


@pytest.mark.parametrize("phase", [Phase.IDLE, Phase.SENDING])
def test_watch_waiting_worker_that_owes_nothing_is_never_late(phase: Phase) -> None:
    patient = Patient()
    patient.phase, patient.has_pending = phase, False
    assert patient.wait(3_600) is Verdict.WELL


@pytest.mark.parametrize("phase", [Phase.IDLE, Phase.SENDING])
def test_watch_worker_that_ignores_commands_is_stalled_counted_from_the_command(
    phase: Phase,
) -> None:
    patient = Patient()
    patient.phase, patient.has_pending = phase, False
    patient.wait(3_600)
    patient.has_pending = True
    assert patient.wait(5) is Verdict.WELL
    assert patient.wait(6) is Verdict.STALLED


def test_watch_gateway_that_stood_still_itself_holds_it_against_nobody() -> None:
    patient = Patient()
    assert patient.look(3_600.0) is Verdict.WELL


def test_watch_vanished_process_counts_as_standing_still() -> None:
    patient = Patient()
    patient.cpu_s = None
    assert patient.wait(11) is Verdict.STALLED


def test_watch_page_lost_in_the_middle_of_a_write_counts_as_no_beat() -> None:
    patient = Patient()
    patient.wait(1)
    verdict = Verdict.WELL
    for second in range(1, 11):
        reading = Reading(patient.now_s + second, None, 5.0, True)
        verdict = patient.watch.judge(reading, _BUDGET, longest_gap_s=1.0)
    assert verdict is Verdict.STALLED


@pytest.mark.parametrize("phase", list(Phase))
def test_watch_every_phase_is_classed(phase: Phase) -> None:
    page = Progress(phase, 1, 1, 0, 1, ())
    always = {Phase.STARTING, Phase.LOADING, Phase.ADDING, Phase.STEPPING, Phase.PROBING}
    assert is_working(page, has_pending=False) == (phase in always)
    assert is_working(page, has_pending=True) == (phase is not Phase.LEAVING)
