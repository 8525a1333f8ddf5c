"""What the next worker of a slot is told after one that was ready."""

from dataclasses import dataclass, field
from typing import Any, cast

from refloat.supervisor.child import Child
from refloat.supervisor.loading import Loading
from refloat.supervisor.spec_source import SpecSource
from refloat.wire.messages import Configure, EngineSpec


@dataclass
class Worker:
    worker_id: int
    pid: int = 1
    sent: list[Any] = field(default_factory=list[Any])

    def send(self, message: Any) -> None:
        self.sent.append(message)


def told(loading: Loading, worker_id: int) -> EngineSpec:
    worker = Worker(worker_id)
    loading.begin(cast("Child", worker))
    [configure] = worker.sent
    assert isinstance(configure, Configure)
    return configure.spec


def test_step_that_was_found_to_fit_is_not_measured_again_in_a_recovery() -> None:
    source = SpecSource(EngineSpec("scripted", "", inter_token_target_s=0.02))
    loading = Loading("m", source)
    first = told(loading, 1)
    assert first.inter_token_target_s == 0.02
    loading.proved(96)
    second = told(loading, 2)
    assert (second.max_num_batched_tokens, second.inter_token_target_s) == (96, 0.0)
    loading.proved(96)
    assert told(loading, 3) == second


def test_step_is_measured_again_after_a_load_that_failed_and_on_another_rung() -> None:
    source = SpecSource(EngineSpec("scripted", "", inter_token_target_s=0.02))
    loading = Loading("m", source)
    told(loading, 1)
    loading.over()
    assert told(loading, 2).inter_token_target_s == 0.02
    loading.proved(96)
    source.settle(EngineSpec("scripted", "", inter_token_target_s=0.02, rung=1))
    assert told(loading, 3).inter_token_target_s == 0.02


def test_step_without_a_target_is_what_the_settings_say() -> None:
    source = SpecSource(EngineSpec("scripted", "", max_num_batched_tokens=512))
    loading = Loading("m", source)
    told(loading, 1)
    loading.proved(512)
    assert told(loading, 2) == source.current
