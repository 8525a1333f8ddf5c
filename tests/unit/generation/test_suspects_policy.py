"""Suspects as a table: losses in, verdicts out."""

from collections.abc import Mapping

import pytest

from refloat.generation.suspects import MAX_LONE_FAULTS, Suspects, Verdict
from refloat.supervisor.fleet import Rebuild

NOTHING = Verdict()
SAFER = Verdict(Rebuild.SAFER)


def fault(suspects: Suspects, running: Mapping[int, int], *batch: int) -> Verdict:
    return suspects.lost(running, batch or running, is_external=False)


@pytest.fixture
def suspects() -> Suspects:
    return Suspects()


def test_first_fault_of_a_batch_changes_nothing_for_anybody(suspects: Suspects) -> None:
    assert fault(suspects, {1: 5, 2: 0, 3: 9}) == NOTHING
    assert suspects.alone == []
    assert suspects


def test_repeat_makes_those_of_both_batches_run_alone_the_youngest_first(
    suspects: Suspects,
) -> None:
    fault(suspects, {1: 5, 2: 0, 3: 9})
    assert fault(suspects, {2: 0, 3: 9, 4: 0}) == NOTHING
    assert suspects.alone == [3, 2]
    assert not suspects.must_be_alone(1)
    assert not suspects.must_be_alone(4)


@pytest.mark.parametrize("position", [0, 5])
def test_one_of_a_batch_that_faults_alone_twice_at_one_position_is_convicted(
    suspects: Suspects, position: int
) -> None:
    batch = dict.fromkeys(range(16), position)
    assert fault(suspects, batch) == NOTHING
    assert fault(suspects, batch) == NOTHING
    assert fault(suspects, {7: position}) == SAFER
    assert fault(suspects, {7: position}) == Verdict(Rebuild.CLEARED, convicted=7)
    assert suspects.alone == []
    assert not suspects


def test_one_that_was_alone_by_chance_is_convicted_only_after_a_safer_try(
    suspects: Suspects,
) -> None:
    assert fault(suspects, {1: 3}) == NOTHING
    assert fault(suspects, {1: 3}) == SAFER
    assert fault(suspects, {1: 3}) == Verdict(Rebuild.CLEARED, convicted=1)


def test_one_that_was_alone_by_chance_and_then_in_a_batch_is_tried_alone(
    suspects: Suspects,
) -> None:
    assert fault(suspects, {1: 3}) == NOTHING
    assert fault(suspects, {1: 3, 2: 0}) == NOTHING
    assert suspects.alone == [1]
    assert fault(suspects, {1: 3}) == SAFER


def test_alone_at_another_position_is_not_twice_at_the_same(suspects: Suspects) -> None:
    for running in ({1: 3, 2: 0}, {1: 3, 2: 0}, {1: 3}):
        fault(suspects, running)
    assert fault(suspects, {1: 4}) == SAFER
    assert fault(suspects, {1: 4}) == Verdict(Rebuild.CLEARED, convicted=1)


def test_two_tokens_past_the_fault_acquit(suspects: Suspects) -> None:
    fault(suspects, {1: 3, 2: 8})
    assert not suspects.advanced(1, 4)
    assert not suspects.advanced(1, 5), "it was not alone"
    assert fault(suspects, {1: 5, 2: 8}) == NOTHING
    assert suspects.alone == [2]


def test_acquittal_of_one_that_is_alone_says_so(suspects: Suspects) -> None:
    fault(suspects, {1: 3, 2: 3})
    fault(suspects, {1: 3, 2: 3})
    assert not suspects.advanced(2, 4)
    assert suspects.advanced(2, 5)
    assert suspects.alone == [1]
    assert not suspects.advanced(2, 6)


def test_the_end_of_a_suspect_is_its_acquittal(suspects: Suspects) -> None:
    fault(suspects, {1: 3, 2: 3})
    fault(suspects, {1: 3, 2: 3})
    suspects.ended(1)
    suspects.ended(2)
    suspects.ended(99)
    assert not suspects


def test_losses_from_outside_suspect_and_convict_nobody(suspects: Suspects) -> None:
    for _ in range(10):
        assert suspects.lost({1: 0}, (1,), is_external=True) == NOTHING
    assert not suspects
    fault(suspects, {1: 0})
    fault(suspects, {1: 0})
    assert suspects.lost({1: 0}, (1,), is_external=True) == NOTHING
    assert suspects.alone == [1], "nor do they acquit"


def test_a_batch_without_names_accuses_all_and_convicts_only_who_is_alone(
    suspects: Suspects,
) -> None:
    for _ in range(20):
        assert suspects.lost({1: 0, 2: 0}, (), is_external=False).convicted is None
    assert suspects.alone == [2, 1]
    assert suspects.lost({1: 0}, (), is_external=False) == SAFER
    assert suspects.lost({1: 0}, (), is_external=False).convicted == 1


def test_one_named_beside_others_that_run_is_suspected_but_not_alone(suspects: Suspects) -> None:
    """It was being added while others ran: they took no part, but it had company."""
    for _ in range(5):
        assert fault(suspects, {1: 4, 2: 0}, 2).convicted is None
    assert suspects.alone == [2]
    assert not suspects.must_be_alone(1)


def test_one_beside_a_cancelled_one_is_not_alone(suspects: Suspects) -> None:
    for _ in range(5):
        assert fault(suspects, {1: 4}, 1, 2).convicted is None


def test_a_batch_of_cancelled_ones_accuses_nobody(suspects: Suspects) -> None:
    assert fault(suspects, {1: 4}, 8, 9) == NOTHING
    assert not suspects


def test_a_conviction_releases_the_others_untried(suspects: Suspects) -> None:
    batch = {1: 0, 2: 0, 3: 0}
    for running in (batch, batch, {3: 0}, {3: 0}):
        fault(suspects, running)
    assert suspects.alone == []
    assert fault(suspects, {1: 0, 2: 0}) == NOTHING, "a first fault again"


def test_a_conviction_releases_nobody_from_faults_that_the_convicted_had_no_part_in(
    suspects: Suspects,
) -> None:
    """Two workers, each with a poison of its own."""
    for running in ({1: 0, 2: 0}, {1: 0, 2: 0}, {2: 0}, {7: 5, 8: 0}, {7: 5, 8: 0}):
        assert fault(suspects, running).convicted is None
    assert suspects.alone == [8, 7, 2, 1]
    assert fault(suspects, {2: 0}).convicted == 2
    assert suspects.alone == [8, 7]


def test_a_batch_that_fails_again_though_each_runs_alone_gets_a_safer_worker(
    suspects: Suspects,
) -> None:
    assert fault(suspects, {1: 0, 2: 0}) == NOTHING
    assert fault(suspects, {1: 0, 2: 0}) == NOTHING
    assert suspects.advanced(2, 2)
    assert suspects.advanced(1, 2)
    assert fault(suspects, {1: 2, 2: 2}) == NOTHING
    assert fault(suspects, {1: 2, 2: 2}) == SAFER
    assert suspects.alone == [2, 1]


def test_one_that_runs_on_a_safer_worker_leaves_no_doubt_about_the_rest(
    suspects: Suspects,
) -> None:
    assert fault(suspects, {1: 0}) == NOTHING
    assert fault(suspects, {1: 0}) == SAFER
    assert suspects.advanced(1, 2)
    assert fault(suspects, {1: 2, 2: 0}) == NOTHING
    assert fault(suspects, {1: 2, 2: 0}) == NOTHING


def test_one_that_gets_a_little_further_each_time_ends_nevertheless(suspects: Suspects) -> None:
    verdict, position, faults = NOTHING, 0, 0
    while verdict.exhausted is None:
        verdict = fault(suspects, {1: position})
        assert verdict.convicted is None
        faults += 1
        position += 2
        suspects.advanced(1, position)
    assert faults == MAX_LONE_FAULTS
    assert verdict.rebuild is Rebuild.CLEARED
