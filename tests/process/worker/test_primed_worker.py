"""Workers that wait primed, and fault plans that several workers of a model share."""

from pathlib import Path

import pytest

from refloat.scripted.tokens import ScriptedTokenizer
from refloat.wire.exit_codes import ChildExit
from refloat.wire.messages import (
    PROTOCOL_VERSION,
    Configure,
    EngineSpec,
    FaultFired,
    FaultSpent,
    Hello,
    Loaded,
    Prime,
    Primed,
    Probed,
    Shutdown,
    WorkerFault,
)
from tests.process.worker.conftest import Driver

pytestmark = pytest.mark.process

MODEL = Path(__file__).parents[2] / "data" / "tiny-llm"


def configure(worker: Driver, engine: str = "scripted", path: str = "") -> None:
    worker.send(Configure(PROTOCOL_VERSION, 1, EngineSpec(engine, path)))


def test_primed_worker_has_read_the_files_and_loads_when_it_is_told(worker: Driver) -> None:
    worker.expect(Hello)
    worker.send(Prime("scripted", str(MODEL)))
    size = sum(file.stat().st_size for file in MODEL.iterdir() if file.is_file())
    assert worker.expect(Primed).read_bytes == size
    configure(worker)
    worker.expect(Loaded)


@pytest.mark.engine
def test_primed_worker_of_the_real_engine_has_its_libraries_and_no_model(worker: Driver) -> None:
    worker.expect(Hello)
    worker.send(Prime("openvino_cb", str(MODEL)))
    worker.expect(Primed)
    maps = Path(f"/proc/{worker.process.pid}/maps").read_text()
    assert "openvino_genai" in maps
    assert "openvino_model.bin" not in maps
    configure(worker, "openvino_cb", str(MODEL))
    worker.expect(Loaded)
    worker.probe()
    worker.expect(Probed)


def test_primed_worker_that_is_told_to_load_at_once_does(worker: Driver, tmp_path: Path) -> None:
    with (tmp_path / "weights.bin").open("wb") as file:
        file.truncate(1 << 30)
    worker.expect(Hello)
    worker.send(Prime("scripted", str(tmp_path)))
    configure(worker)
    worker.expect(Loaded)


@pytest.mark.parametrize("path", ["/no/such/folder", "", "/etc/hostname"])
def test_priming_of_files_that_are_not_there_is_no_fault(worker: Driver, path: str) -> None:
    worker.expect(Hello)
    worker.send(Prime("no-such-engine", path))
    worker.expect(Primed)
    worker.send(Shutdown())
    assert worker.wait() == ChildExit.ASKED


def test_primed_worker_whose_gateway_goes_leaves(worker: Driver) -> None:
    worker.expect(Hello)
    worker.send(Prime("scripted", ""))
    worker.expect(Primed)
    worker.pipe.close()
    assert worker.wait() == ChildExit.ASKED


def test_priming_after_the_load_is_against_the_protocol(worker: Driver) -> None:
    worker.load()
    worker.send(Prime("scripted", ""))
    assert worker.wait() == ChildExit.PROTOCOL


def test_fault_that_another_worker_has_fired_is_not_fired_again(
    worker: Driver, tokens: ScriptedTokenizer
) -> None:
    plan = (
        {"at": "token", "token": 0, "kind": "raise"},
        {"at": "token", "token": 2, "kind": "raise"},
    )
    worker.load(faults=plan)
    worker.send(FaultSpent(0))
    worker.send(FaultSpent(7))
    worker.add(1, tokens.encode("Hi"))
    fired = next(m for m in iter(worker.receive, None) if isinstance(m, FaultFired))
    assert fired.index == 1
    worker.expect(WorkerFault)


def test_chance_that_another_worker_let_pass_is_passed_here_too(
    worker: Driver, tokens: ScriptedTokenizer
) -> None:
    worker.load(faults=({"at": "token", "token": 0, "kind": "raise", "skip": 1},))
    worker.send(FaultSpent(0))
    worker.add(1, tokens.encode("Hi"))
    worker.expect(FaultFired)
    worker.expect(WorkerFault)


def test_fault_spent_means_nothing_to_a_worker_without_a_plan(
    worker: Driver, tokens: ScriptedTokenizer
) -> None:
    worker.load()
    worker.send(FaultSpent(0))
    worker.add(1, tokens.encode("Hi"))
    assert worker.until_ended(1)
