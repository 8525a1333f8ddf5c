"""Each pattern brings its advice, and no advice comes without its pattern."""

import pytest

from refloat.observe.incident_hints import HINTS, Case, hints_for
from refloat.observe.kernel_lines import KernelEvent, parse_kernel_line
from refloat.wire.faults import FaultKind

F = FaultKind


def heard(line: str) -> tuple[KernelEvent, ...]:
    event = parse_kernel_line(line)
    assert event is not None
    return (event,)


CASES = [
    (
        Case(F.CONTEXT_FATAL, "ready", kernel=heard("i915 0000:03:00.0: GPU HANG: ecode 1")),
        "GPU_ENABLE_SDPA_OPTIMIZATION=false",
    ),
    (
        Case(F.STALL, "ready", kernel=heard("Fence expiration time out i915-0000:4d:00.0:a[1]:2!")),
        "GPU_ENABLE_SDPA_OPTIMIZATION=false",
    ),
    (
        Case(F.CONTEXT_FATAL, "ready", words="clFinish, error code: -5 CL_OUT_OF_RESOURCES"),
        "max_num_batched_tokens",
    ),
    (Case(F.OUT_OF_MEMORY, "loading"), "ENABLE_WEIGHTLESS=true"),
    (Case(F.OUT_OF_MEMORY, "ready"), "cache_size"),
    (Case(F.STEP_FAULT, "ready", words="Got unfinished GenerationStatus"), "kind of engine"),
    (
        Case(F.DEATH, "ready", words="Check 'm_block_table.count(seq_id) > 0' failed"),
        "more blocks",
    ),
    (Case(F.STALL, "loading"), "load_timeout_s"),
    (Case(F.STALL, "ready", device="GPU.1"), "CACHE_DIR"),
    (
        Case(F.DEATH, "ready", kernel=heard("NVRM: Xid (PCI:0000:01:00): 79, fallen off the bus")),
        "bus",
    ),
    (Case(F.DEATH, "ready", is_external=True, kernel_is_readable=False), "/dev/kmsg"),
    (Case(F.DEATH, "ready", is_external=True), "sends signals"),
    (Case(F.WRONG_OUTPUT, "probing"), "accept"),
    (Case(F.UNKILLABLE, "ready"), "driver"),
    (
        Case(F.STEP_FAULT, "ready", words="ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY"),
        "KV_CACHE_PRECISION",
    ),
]


@pytest.mark.parametrize(("case", "advice"), CASES, ids=[advice for _, advice in CASES])
def test_hint_comes_with_its_pattern(case: Case, advice: str) -> None:
    assert any(advice in hint for hint in hints_for(case))


def test_every_hint_has_a_case_here() -> None:
    given = {hint for case, _ in CASES for hint in hints_for(case)}
    assert given == {hint.advice for hint in HINTS}


def test_plain_death_on_a_processor_brings_no_advice() -> None:
    assert hints_for(Case(F.DEATH, "ready")) == []
    assert hints_for(Case(F.STALL, "ready")) == []
