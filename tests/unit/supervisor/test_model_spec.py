"""What children are told, what everybody knows of a model, and what a request for it meets."""

from pathlib import Path

import pytest

from refloat.config.schema import ModelConfig
from refloat.models.manifest import Manifest
from refloat.supervisor.availability import availability_of
from refloat.supervisor.facts import build_facts
from refloat.supervisor.failed_model import publish_failed
from refloat.supervisor.fleet import Availability, Fleet
from refloat.supervisor.lifecycle import WorkerState
from refloat.supervisor.slots import slots_for
from refloat.supervisor.spec import build_prep_configure, build_spec
from refloat.wire.faults import FaultKind
from refloat.wire.messages import CacheFacts, Capabilities
from refloat.wire.prep_messages import PrepReady, TokenTable

_S = WorkerState
_MANIFEST = Manifest(
    version=1, source="m", model_hash="h", context_length=8_192, eos_token_ids=(2,)
)
_PREP = PrepReady(TokenTable(b"", b"", ()), vocab_size=100, bos_token_id=1, eos_token_ids=(7,))


def test_spec_on_a_gpu_adds_the_two_defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REFLOAT_HOME", "/home-of-state")
    spec = build_spec(ModelConfig(model="m", device="GPU.1"), _MANIFEST, "/m")
    assert spec.properties == {
        "CACHE_DIR": "/home-of-state/v1/compiled",
        "ENABLE_WEIGHTLESS": True,
    }
    assert spec.context_length == 8_192


def test_spec_on_a_gpu_leaves_what_the_operator_set() -> None:
    given = {"CACHE_DIR": "/mine", "ENABLE_WEIGHTLESS": False}
    config = ModelConfig(model="m", device="GPU", plugin_config=given, cache_dir="/other")
    assert build_spec(config, _MANIFEST, "/m").properties == given


def test_spec_on_a_cpu_adds_nothing() -> None:
    spec = build_spec(ModelConfig(model="m", cache_size=0.5), _MANIFEST, "/m")
    assert spec.properties == {}
    assert spec.cache_size_bytes == 2**29
    assert spec.engine == "openvino_cb"


def test_spec_of_the_scripted_model_names_no_files(tmp_path: Path) -> None:
    script = tmp_path / "script.yaml"
    config = ModelConfig(model="scripted", script=str(script), engine_options={"step_s": 0.1})
    spec = build_spec(config, _MANIFEST, "")
    assert (spec.engine, spec.model_path) == ("scripted", "")
    assert spec.options == {"step_s": 0.1, "script": str(script)}
    prep = build_prep_configure(config, "")
    assert (prep.tokenizer, prep.model_path) == ("scripted", "")


def test_facts_context_is_no_more_than_the_cache_holds() -> None:
    config = ModelConfig(model="m", max_num_seqs=64)
    facts = build_facts(
        config,
        _MANIFEST,
        _PREP,
        Capabilities(capacity=8),
        CacheFacts(block_size=32, num_blocks=20),
        spec=build_spec(config, _MANIFEST, "/m"),
        context_limit=8_192,
        probe_key="abcdef0123456789",
    )
    assert facts.context_length == 640
    assert facts.max_num_seqs == 8
    assert facts.eos_token_ids == (2,)
    assert facts.bos_token_id == 1
    assert facts.fingerprint == "fp_abcdef012345"


def test_facts_without_a_paged_cache_keep_the_limit() -> None:
    config = ModelConfig(model="m", max_num_seqs=4)
    facts = build_facts(
        config,
        _MANIFEST,
        _PREP,
        Capabilities(),
        None,
        spec=build_spec(config, _MANIFEST, "/m"),
        context_limit=4_096,
        probe_key="k",
    )
    assert facts.max_num_seqs == 4
    assert facts.context_length == 4_096


@pytest.mark.parametrize(
    ("asked", "blocks", "slots"),
    [(None, 20, 10), (None, 1, 1), (None, 200, 100), (None, 4000, 256), (64, 20, 64), (3, 4000, 3)],
)
def test_slots_follow_from_the_cache_unless_they_are_given(
    asked: int | None, blocks: int, slots: int
) -> None:
    config = ModelConfig(model="m", max_num_seqs=asked)
    spec = build_spec(config, _MANIFEST, "/m")
    assert slots_for(spec, CacheFacts(32, blocks)) == slots


@pytest.mark.parametrize("prep", [_S.SPAWNING, _S.READY, _S.BACKOFF, _S.EXITED])
def test_availability_depends_on_the_worker_while_prep_recovers(prep: WorkerState) -> None:
    expected = {
        _S.READY: Availability.READY,
        _S.FAILED: Availability.FAILED,
        _S.STUCK: Availability.FAILED,
        _S.DRAINING: Availability.DRAINING,
    }
    for worker in WorkerState:
        for was_ready in (False, True):
            found = availability_of(worker, prep, was_ready=was_ready, is_stopping=False)
            waiting = Availability.RECOVERING if was_ready else Availability.LOADING
            assert found is expected.get(worker, waiting)


@pytest.mark.parametrize("prep", [_S.FAILED, _S.STUCK])
def test_availability_without_prep_is_failed_whatever_the_worker(prep: WorkerState) -> None:
    for worker in WorkerState:
        found = availability_of(worker, prep, was_ready=True, is_stopping=False)
        assert found is Availability.FAILED


def test_availability_of_a_stopping_model_is_draining() -> None:
    found = availability_of(_S.READY, _S.READY, was_ready=True, is_stopping=True)
    assert found is Availability.DRAINING


def test_publish_failed_names_the_reason_without_any_worker() -> None:
    fleet = Fleet()
    publish_failed(fleet, name="m", created=1, reason="/srv/m: no such folder")
    snapshot = fleet.get("m")
    assert snapshot is not None
    assert snapshot.availability is Availability.FAILED
    assert (snapshot.reason, snapshot.cause) == ("m: no such folder", FaultKind.BAD_CONFIGURATION)
    assert snapshot.workers == ()
