"""From evidence to a fault's kind and a sentence."""

import signal

import pytest

from refloat.supervisor.exits import (
    explain_end,
    explain_exit,
    explain_load_failed,
    explain_worker_fault,
)
from refloat.wire.exit_codes import ChildExit
from refloat.wire.faults import FaultKind
from refloat.wire.link import LinkEnd
from refloat.wire.messages import LoadFailed, WorkerFault


@pytest.mark.parametrize(
    ("returncode", "kind", "words"),
    [
        (ChildExit.ASKED, FaultKind.DEATH, "nobody asked"),
        (ChildExit.INTERNAL, FaultKind.DEATH, "unexpected error"),
        (ChildExit.LOAD_FAILED, FaultKind.LOAD_FAILED, "could not load"),
        (ChildExit.PROTOCOL, FaultKind.PROTOCOL, "understand"),
        (ChildExit.ORPHANED, FaultKind.DEATH, "gone"),
        (1, FaultKind.DEATH, "exit code 1, which is none of ours"),
        (137, FaultKind.DEATH, "none of ours"),
        (-signal.SIGSEGV, FaultKind.DEATH, "SIGSEGV"),
        (-signal.SIGKILL, FaultKind.DEATH, "nobody here sent"),
        (-60, FaultKind.DEATH, "signal 60"),
    ],
)
def test_exit_each_code_has_its_kind(returncode: int, kind: FaultKind, words: str) -> None:
    fault = explain_exit("worker", returncode, we_killed=False)
    assert fault.kind is kind
    assert words in fault.reason
    assert fault.is_final_word


def test_exit_own_kill_is_not_taken_for_the_kernels() -> None:
    fault = explain_exit("prep", -signal.SIGKILL, we_killed=True)
    assert fault.reason == "the prep process had to be killed"


@pytest.mark.parametrize(
    ("returncode", "we_killed", "is_external"),
    [
        (-signal.SIGKILL, False, True),
        (-signal.SIGTERM, False, True),
        (-signal.SIGINT, False, True),
        (-60, False, True),
        (-signal.SIGKILL, True, False),
        (-signal.SIGSEGV, False, False),
        (-signal.SIGABRT, False, False),
        (-signal.SIGBUS, False, False),
        (1, False, False),
        (ChildExit.INTERNAL, False, False),
    ],
)
def test_exit_by_a_signal_that_nobody_here_sent_is_from_outside(
    returncode: int, we_killed: bool, is_external: bool
) -> None:
    assert explain_exit("worker", returncode, we_killed=we_killed).is_external is is_external


def test_exit_every_code_of_ours_is_known() -> None:
    for code in ChildExit:
        assert "none of ours" not in explain_exit("worker", code, we_killed=False).reason


@pytest.mark.parametrize(
    ("end", "kind", "is_final"),
    [
        (LinkEnd.EOF, FaultKind.DEATH, False),
        (LinkEnd.TORN, FaultKind.DEATH, False),
        (LinkEnd.GARBAGE, FaultKind.PROTOCOL, True),
        (LinkEnd.OVERFLOW, FaultKind.STALL, True),
    ],
)
def test_end_only_eof_waits_for_a_better_word(
    end: LinkEnd, kind: FaultKind, is_final: bool
) -> None:
    fault = explain_end("worker", end, "detail")
    assert (fault.kind, fault.is_final_word) == (kind, is_final)


def test_worker_fault_keeps_its_kind_and_is_cut_to_one_line() -> None:
    said = WorkerFault(FaultKind.CONTEXT_FATAL, "clFinish\n error: " + "x" * 5_000, "stepping")
    fault = explain_worker_fault(said)
    assert fault.kind is FaultKind.CONTEXT_FATAL
    assert "\n" not in fault.reason
    assert len(fault.reason) == 500


def test_load_failed_of_another_kind_counts_as_plain_failure() -> None:
    assert explain_load_failed(LoadFailed(FaultKind.STALL, "?")).kind is FaultKind.LOAD_FAILED
    bad = explain_load_failed(LoadFailed(FaultKind.BAD_CONFIGURATION, "no such device"))
    assert (bad.kind, bad.reason) == (FaultKind.BAD_CONFIGURATION, "no such device")
