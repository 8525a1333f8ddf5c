"""Every kind of fault that a plan can ask for, as the gateway sees it on the link."""

import os
import signal
from typing import Any

import psutil
import pytest

from refloat.scripted.tokens import ScriptedTokenizer
from refloat.testing.patience import eventually
from refloat.wire.exit_codes import ChildExit
from refloat.wire.faults import FaultKind
from refloat.wire.frame import FrameError
from refloat.wire.messages import FaultFired, LoadFailed, Probed, Refused, Step, WorkerFault
from refloat.wire.pipe import EOF
from refloat.wire.problem import ProblemKind
from refloat.wire.progress import Phase
from tests.process.worker.conftest import Driver, StartWorker

pytestmark = pytest.mark.process


def run_until_fault(worker: Driver, tokens: ScriptedTokenizer, **fault: Any) -> list[int]:
    """Add one request under a plan of one entry; the emitted ids, and what came after the firing."""
    worker.load(faults=(fault,))
    worker.add(1, tokens.encode("Count from 1 to 20"))
    ids: list[int] = []
    while True:
        message = worker.receive()
        if isinstance(message, FaultFired):
            assert message.index == 0
            return ids
        assert isinstance(message, Step), message
        ids += [token for output in message.outputs for token in output.ids]


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("raise", FaultKind.STEP_FAULT),
        ("context_fatal", FaultKind.CONTEXT_FATAL),
        ("wedge", FaultKind.STEP_FAULT),
        ("oom", FaultKind.OUT_OF_MEMORY),
    ],
)
@pytest.mark.parametrize("at", ["add", "step", "token"])
def test_raised_fault_is_one_frame_and_then_silence_until_the_end(
    worker: Driver, tokens: ScriptedTokenizer, kind: str, expected: FaultKind, at: str
) -> None:
    entry: dict[str, Any] = {"at": at, "kind": kind} | ({"token": 3} if at == "token" else {})
    run_until_fault(worker, tokens, **entry)
    fault = worker.expect(WorkerFault)
    assert fault.kind is expected
    assert fault.phase == ("adding" if at == "add" else "stepping")
    page = worker.progress.read()
    assert page is not None
    assert page.phase is Phase.LEAVING
    assert page.generations == (1,)
    worker.add(2, tokens.encode("Hi"))
    worker.probe()
    assert worker.pipe.recv(0.2) is None
    assert worker.process.poll() is None
    worker.pipe.close()
    assert worker.wait() == ChildExit.ASKED


@pytest.mark.parametrize("at", ["load", "add", "step"])
@pytest.mark.parametrize("rung", [1, 2])
def test_fault_beyond_its_rung_does_not_happen(
    worker: Driver, tokens: ScriptedTokenizer, at: str, rung: int
) -> None:
    worker.load(faults=({"at": at, "kind": "exit", "max_rung": 0},), rung=rung)
    worker.add(1, tokens.encode("Hi"))
    worker.expect(Step)


def test_fault_at_a_token_comes_after_exactly_so_many(
    worker: Driver, tokens: ScriptedTokenizer
) -> None:
    ids = run_until_fault(worker, tokens, at="token", token=5, kind="raise")
    assert len(ids) == 5


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        ("segv", -signal.SIGSEGV),
        ("abort", -signal.SIGABRT),
        ("kill", -signal.SIGKILL),
        ("exit", 1),
    ],
)
@pytest.mark.parametrize("at", ["add", "step"])
def test_deadly_fault_is_announced_and_then_the_link_ends(
    worker: Driver, tokens: ScriptedTokenizer, kind: str, code: int, at: str
) -> None:
    run_until_fault(worker, tokens, at=at, kind=kind)
    assert worker.receive() is EOF
    assert worker.wait() == code


def test_segv_leaves_python_stacks_on_stderr(worker: Driver, tokens: ScriptedTokenizer) -> None:
    run_until_fault(worker, tokens, at="step", kind="segv")
    worker.wait()
    assert b"Segmentation fault" in worker.stderr()


def test_hang_stands_still_on_the_page_and_dies_by_sigkill(
    worker: Driver, tokens: ScriptedTokenizer
) -> None:
    run_until_fault(worker, tokens, at="token", token=2, kind="hang")
    before = worker.progress.read()
    assert worker.pipe.recv(0.2) is None
    assert worker.progress.read() == before
    worker.process.kill()
    assert worker.receive() is EOF


def test_hang_with_seconds_goes_on(worker: Driver, tokens: ScriptedTokenizer) -> None:
    run_until_fault(worker, tokens, at="token", token=2, kind="hang", seconds=0.01)
    assert worker.until_ended(1)[1][-1].ended


def test_slow_goes_on(worker: Driver, tokens: ScriptedTokenizer) -> None:
    run_until_fault(worker, tokens, at="step", kind="slow", seconds=0.01)
    assert worker.until_ended(1)[1][-1].ended


def test_garbage_is_seen_as_garbage(worker: Driver, tokens: ScriptedTokenizer) -> None:
    run_until_fault(worker, tokens, at="step", kind="garbage")
    with pytest.raises(FrameError):
        worker.receive()


def test_closed_socket_is_seen_as_the_end_while_the_process_lives(
    worker: Driver, tokens: ScriptedTokenizer
) -> None:
    run_until_fault(worker, tokens, at="step", kind="close_socket")
    assert worker.receive() is EOF
    assert worker.process.poll() is None


def test_refusal_by_plan_ends_that_request_alone(worker: Driver, tokens: ScriptedTokenizer) -> None:
    worker.load(faults=({"at": "add", "kind": "refuse", "match": "bad", "message": "no"},))
    worker.add(1, tokens.encode("Repeat: good"), stop_token_ids=tokens.eos_ids)
    worker.add(2, tokens.encode("Repeat: bad"), stop_token_ids=tokens.eos_ids)
    ended = False
    refused: Refused | None = None
    while not ended or refused is None:
        message = worker.receive()
        if isinstance(message, Refused):
            refused = message
        elif isinstance(message, Step):
            ended = ended or any(output.ended for output in message.outputs)
    assert (refused.generation, refused.problem.message) == (2, "no")
    assert refused.problem.kind is ProblemKind.INVALID_REQUEST


def test_wrong_output_changes_the_probe(start_worker: StartWorker) -> None:
    answers: list[tuple[int, ...]] = []
    for faults in ((), ({"at": "probe", "kind": "wrong_output", "times": 99},)):
        worker = start_worker()
        worker.load(faults=faults)
        worker.probe(3)
        message = worker.receive()
        while isinstance(message, FaultFired):
            message = worker.receive()
        assert isinstance(message, Probed)
        answers.append(message.ids)
    assert answers[0] != answers[1]


def test_fault_at_the_probe_leaves_requests_alone(
    worker: Driver, tokens: ScriptedTokenizer
) -> None:
    worker.load(faults=({"at": "probe", "kind": "raise"}, {"at": "step", "kind": "raise"}))
    worker.probe()
    assert worker.expect(FaultFired).index == 0
    assert worker.expect(WorkerFault).phase == "probing"


def test_fault_at_a_step_leaves_the_probe_alone(worker: Driver) -> None:
    worker.load(faults=({"at": "step", "kind": "raise"},))
    worker.probe()
    worker.expect(Probed)


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("raise", FaultKind.LOAD_FAILED),
        ("oom", FaultKind.OUT_OF_MEMORY),
        ("context_fatal", FaultKind.LOAD_FAILED),
    ],
)
def test_fault_while_loading_is_reported_and_the_worker_leaves(
    worker: Driver, kind: str, expected: FaultKind
) -> None:
    worker.configure(faults=({"at": "load", "kind": kind},))
    assert worker.expect(FaultFired).index == 0
    assert worker.expect(LoadFailed).kind is expected
    assert worker.wait() == ChildExit.LOAD_FAILED


def test_death_while_loading_is_announced(worker: Driver) -> None:
    worker.configure(faults=({"at": "load", "kind": "kill"},))
    worker.expect(FaultFired)
    assert worker.receive() is EOF


def test_entry_fires_as_often_as_it_says(worker: Driver, tokens: ScriptedTokenizer) -> None:
    worker.load(faults=({"at": "step", "kind": "slow", "seconds": 0.0, "times": 3},))
    worker.add(1, tokens.encode("Count from 1 to 20"))
    fired = 0
    while True:
        message = worker.receive()
        if isinstance(message, FaultFired):
            fired += 1
        elif isinstance(message, Step) and any(output.ended for output in message.outputs):
            break
    assert fired == 3


def test_entry_with_no_times_left_keeps_its_place(
    worker: Driver, tokens: ScriptedTokenizer
) -> None:
    plan = ({"at": "step", "kind": "kill", "times": 0}, {"at": "step", "kind": "raise"})
    worker.load(faults=plan)
    worker.add(1, tokens.encode("Hi"))
    assert worker.expect(FaultFired).index == 1


def test_entry_waits_for_the_tokens_it_names(worker: Driver, tokens: ScriptedTokenizer) -> None:
    worker.load(faults=({"at": "step", "kind": "raise", "match_tokens": list(b"poison")},))
    worker.add(1, tokens.encode("Hi"), stop_token_ids=tokens.eos_ids)
    worker.until_ended(1)
    worker.add(2, tokens.encode("some poison here"))
    worker.expect(FaultFired)
    worker.expect(WorkerFault)


def test_entry_lets_chances_pass_and_says_so(worker: Driver, tokens: ScriptedTokenizer) -> None:
    worker.load(faults=({"at": "step", "kind": "raise", "skip": 2},))
    worker.add(1, tokens.encode("Count from 1 to 20"))
    told = [type(worker.receive()) for _ in range(6)]
    assert told == [FaultFired, Step, FaultFired, Step, FaultFired, WorkerFault]


def test_stopped_worker_is_alive_and_says_nothing(
    worker: Driver, tokens: ScriptedTokenizer
) -> None:
    run_until_fault(worker, tokens, at="token", token=2, kind="stop")
    process = psutil.Process(worker.process.pid)
    eventually(lambda: process.status() == psutil.STATUS_STOPPED, what="the worker to be stopped")
    assert worker.pipe.recv(0) is None
    os.kill(worker.process.pid, signal.SIGCONT)
    assert worker.until_ended(1)[1][-1].ended
