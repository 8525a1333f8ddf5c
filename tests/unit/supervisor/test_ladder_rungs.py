"""The ladder: what its rungs are, and when a model moves on it."""

from typing import Any

import pytest

from refloat.config.check import check
from refloat.config.ladder import LadderError, LadderRung, parse_ladder
from refloat.config.schema import Config, ModelConfig
from refloat.models.manifest import Manifest
from refloat.supervisor.ladder import Ladder, built_in_rungs, ladder_specs
from refloat.wire.messages import EngineSpec

MANIFEST = Manifest(1, "m", "hash", context_length=4_096, eos_token_ids=(0,))


def specs_of(**settings: Any) -> tuple[EngineSpec, ...]:
    return ladder_specs(ModelConfig(model="m", **settings), MANIFEST, "m")


def ladder(count: int = 3, quiet_s: float = 600.0) -> Ladder:
    specs = [EngineSpec(engine="e", model_path="", rung=rung) for rung in range(count)]
    return Ladder(specs, quiet_s=quiet_s)


# --- the rungs ------------------------------------------------------------------------------------


def test_built_in_ladder_of_a_cpu_is_smaller_steps_then_fewer_sequences() -> None:
    top, first, second = specs_of(max_num_batched_tokens=512, max_num_seqs=64)
    assert [spec.rung for spec in (top, first, second)] == [0, 1, 2]
    assert (first.max_num_batched_tokens, first.max_num_seqs) == (256, 64)
    assert (second.max_num_batched_tokens, second.max_num_seqs) == (256, 16)


def test_built_in_ladder_of_a_gpu_does_without_its_attention_kernel_in_between() -> None:
    top, first, second, third = specs_of(device="GPU.1")
    key = "GPU_ENABLE_SDPA_OPTIMIZATION"
    assert [key in spec.properties for spec in (top, first, second, third)] == [False] * 2 + [
        True
    ] * 2
    assert second.properties[key] is False
    assert second.max_num_seqs == top.max_num_seqs
    assert third.max_num_seqs == top.max_num_seqs // 4


@pytest.mark.parametrize(
    ("batched", "seqs", "wanted"),
    [
        (200, 64, [(200, 64), (128, 64), (128, 16)]),
        (128, 64, [(128, 64), (128, 16)]),
        (100, 64, [(100, 64), (100, 16)]),
        (100, 1, [(100, 1)]),
        (100, 3, [(100, 3), (100, 1)]),
    ],
)
def test_built_in_rungs_stop_at_their_floors_and_are_left_out_where_they_change_nothing(
    batched: int, seqs: int, wanted: list[tuple[int, int]]
) -> None:
    specs = specs_of(max_num_batched_tokens=batched, max_num_seqs=seqs)
    assert [(spec.max_num_batched_tokens, spec.max_num_seqs) for spec in specs] == wanted
    assert [spec.rung for spec in specs] == list(range(len(wanted)))


def test_configured_ladder_builds_rung_upon_rung_down_to_another_device() -> None:
    given = [
        {"properties": {"A": 1, "B": None}},
        {"max_num_batched_tokens": 64},
        {"device": "CPU", "max_num_seqs": 2},
    ]
    top, first, second, third = specs_of(device="GPU", plugin_config={"B": 2, "C": 3}, ladder=given)
    assert top.properties["B"] == 2
    assert (first.properties["A"], first.properties["C"]) == (1, 3)
    assert "B" not in first.properties
    assert (second.max_num_batched_tokens, second.device) == (64, "GPU")
    assert (third.max_num_batched_tokens, third.max_num_seqs, third.device) == (64, 2, "CPU")
    assert third.properties == {"A": 1, "C": 3}, "the GPU's own defaults are gone"


def test_empty_ladder_has_no_rung_to_go_to() -> None:
    assert len(specs_of(ladder=[])) == 1
    assert built_in_rungs(ModelConfig(model="m"))


@pytest.mark.parametrize(
    ("rung", "words"),
    [
        ({"devise": "CPU"}, "devise"),
        ({"max_num_seqs": 0}, "max_num_seqs"),
        ({"max_num_batched_tokens": "64"}, "max_num_batched_tokens"),
        ({"device": ""}, "device"),
        ({}, "changes nothing"),
    ],
)
def test_rung_that_cannot_be_meant_is_refused_by_its_place(
    rung: dict[str, Any], words: str
) -> None:
    with pytest.raises(LadderError, match=r"^ladder\[1\]: ") as refused:
        parse_ladder([{"device": "CPU"}, rung])
    assert words in str(refused.value)
    config = Config(models=[ModelConfig(model="scripted", ladder=[{"device": "CPU"}, rung])])
    assert any("ladder[1]" in error for error in check(config).errors)


def test_rung_of_defaults_is_the_same_as_none() -> None:
    assert parse_ladder([]) == ()
    assert LadderRung() == LadderRung(properties={})


# --- moving ---------------------------------------------------------------------------------------


def test_ladder_goes_down_rung_by_rung_and_stays_at_the_last() -> None:
    steps = ladder(3)
    assert steps.rung == 0
    for rung in (1, 2, 2):
        steps.go_down(0.0)
        assert steps.rung == rung


def test_step_that_was_of_no_use_is_taken_back_once() -> None:
    steps = ladder(3)
    steps.go_down(0.0)
    steps.go_down(1.0)
    steps.take_back(2.0)
    assert steps.rung == 1
    steps.take_back(3.0)
    assert steps.rung == 1


def test_step_that_could_not_be_taken_is_not_taken_back() -> None:
    steps = ladder(2)
    steps.go_down(0.0)
    steps.rebuilt(1.0, had_progress=True, is_external=False)
    steps.go_down(2.0)
    steps.take_back(3.0)
    assert steps.rung == 1


@pytest.mark.parametrize(
    ("after_s", "rung"), [(599.0, 2), (600.0, 1), (1199.0, 1), (1200.0, 0), (1e6, 0)]
)
def test_quiet_times_are_worth_a_rung_each_at_the_next_rebuild(after_s: float, rung: int) -> None:
    steps = ladder(3)
    steps.go_down(0.0)
    steps.go_down(100.0)
    steps.rebuilt(100.0 + after_s, had_progress=True, is_external=False)
    assert steps.rung == rung


def test_quiet_without_progress_is_worth_nothing() -> None:
    steps = ladder(3)
    steps.go_down(0.0)
    steps.rebuilt(10_000.0, had_progress=False, is_external=False)
    assert steps.rung == 1


@pytest.mark.parametrize(("is_external", "rung"), [(False, 1), (True, 0)])
def test_faults_disturb_the_quiet_and_signals_from_outside_do_not(
    is_external: bool, rung: int
) -> None:
    steps = ladder(3)
    steps.go_down(0.0)
    steps.rebuilt(500.0, had_progress=True, is_external=is_external)
    assert steps.rung == 1
    steps.rebuilt(700.0, had_progress=True, is_external=False)
    assert steps.rung == rung


def test_rung_that_cannot_be_loaded_is_left_for_the_next_and_not_used_again() -> None:
    steps = ladder(3)
    steps.go_down(0.0)
    steps.reject(1.0)
    assert steps.rung == 2
    steps.reject(2.0)
    assert steps.rung == 0
    steps.go_down(3.0)
    assert steps.rung == 0
    steps.reject(4.0)
    assert steps.rung == 0, "full speed is never given up"


def test_operator_brings_it_to_the_top() -> None:
    steps = ladder(3)
    steps.go_down(0.0)
    steps.go_down(0.0)
    steps.climb_to_top()
    assert steps.rung == 0
