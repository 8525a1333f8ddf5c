"""Who is told that another worker of the model has fired an entry of the fault plan."""

from types import SimpleNamespace
from typing import Any, cast

from refloat.observe.metrics import Metrics
from refloat.supervisor.lifecycle import Effect
from refloat.supervisor.spec_source import SpecSource
from refloat.supervisor.worker_program import WorkerProgram
from refloat.wire.messages import Configure, EngineSpec, FaultSpent

SPEC = EngineSpec(
    engine="scripted",
    model_path="",
    device="CPU",
    context_length=512,
    faults=({"at": "step", "kind": "kill", "times": 2},),
)


def child(worker_id: int) -> Any:
    sent: list[Any] = []
    return SimpleNamespace(worker_id=worker_id, pid=worker_id, sent=sent, send=sent.append)


def test_worker_that_only_starts_is_not_told_but_configured_with_what_is_left() -> None:
    source, nobody = SpecSource(SPEC), cast("Any", None)
    program = WorkerProgram(
        "m",
        source,
        "hash",
        listener=nobody,
        metrics=Metrics(),
        watch=nobody,
        probes=nobody,
        on_change=lambda: None,
    )
    for worker_id, left in ((1, 1), (2, 0)):  # the second comes into the slot of the first
        starting = child(worker_id)
        source.spent(9, 0)
        program.tell_spent(starting, 0)
        assert starting.sent == []
        program.perform(Effect.SEND_CONFIGURE, starting, None)
        (configure,) = starting.sent
        assert isinstance(configure, Configure)
        assert configure.spec.faults[0]["times"] == left
        program.tell_spent(starting, 0)
        assert starting.sent[1:] == [FaultSpent(0)]
