"""The worker program with the real engine, on a tiny model."""

from pathlib import Path

import pytest

from refloat.testing.exact import EXACT_PROPERTIES
from refloat.wire.faults import FaultKind
from refloat.wire.messages import FaultFired, LoadFailed, Probed, WorkerFault
from tests.process.worker.conftest import Driver, StartWorker, ids_of

pytestmark = [pytest.mark.process, pytest.mark.engine]

MODEL = str(Path(__file__).parents[2] / "data" / "tiny-llm")
PROMPT = list(range(10, 50))


def load(worker: Driver, **fields: object) -> Driver:
    worker.load(
        **{
            "engine": "openvino_cb",
            "model_path": MODEL,
            "properties": EXACT_PROPERTIES,
            "num_kv_blocks": 16,
            **fields,
        }
    )
    return worker


def test_real_worker_probes_serves_cancels_and_refuses(worker: Driver) -> None:
    load(worker)
    worker.probe()
    probed = worker.expect(Probed)
    assert probed.cache is not None
    assert (probed.cache.num_blocks, probed.cache.block_size) == (16, 32)
    assert probed.cache.bytes_total > 0
    worker.add(1, PROMPT, max_tokens=300)
    worker.add(2, PROMPT[::-1], max_tokens=30)
    worker.add(3, PROMPT, max_tokens=500)
    assert worker.refusal().generation == 3
    worker.cancel(1)
    outputs = worker.until_ended(1, 2)
    assert outputs[1][-1].ended == "cancelled"
    assert (outputs[2][-1].ended, len(ids_of(outputs[2]))) == ("length", 30)


def test_real_worker_killed_in_mid_answer_is_continued_by_another_token_for_token(
    start_worker: StartWorker,
) -> None:
    whole_run, killed = load(start_worker()), load(start_worker())
    whole_run.add(1, PROMPT, max_tokens=24)
    whole = ids_of(whole_run.until_ended(1)[1])
    killed.add(1, PROMPT, max_tokens=24)
    emitted: list[int] = []
    while len(emitted) < 9:
        message = killed.receive()
        emitted += [token for output in getattr(message, "outputs", ()) for token in output.ids]
    killed.process.kill()
    whole_run.add(1, PROMPT, emitted=emitted, attempt=2, max_tokens=24)
    assert emitted + ids_of(whole_run.until_ended(1)[1]) == whole


def test_real_worker_hurt_by_a_plan_reports_and_holds_still(worker: Driver) -> None:
    load(worker, faults=({"at": "token", "token": 3, "kind": "context_fatal"},))
    worker.add(1, PROMPT)
    message = worker.receive()
    while not isinstance(message, FaultFired):
        message = worker.receive()
    assert worker.expect(WorkerFault).kind is FaultKind.CONTEXT_FATAL
    assert worker.pipe.recv(0.2) is None
    assert worker.process.poll() is None


def test_real_worker_without_its_model_says_it_never_will(worker: Driver) -> None:
    worker.configure(engine="openvino_cb", model_path="/nonexistent")
    assert worker.expect(LoadFailed).kind is FaultKind.BAD_CONFIGURATION
    assert worker.wait() == 71


def test_real_worker_refuses_a_text_match_that_it_could_never_make(worker: Driver) -> None:
    worker.configure(
        engine="openvino_cb",
        model_path=MODEL,
        faults=({"at": "step", "kind": "kill", "match": "text"},),
    )
    failed = worker.expect(LoadFailed)
    assert failed.kind is FaultKind.BAD_CONFIGURATION
    assert "match" in failed.message
