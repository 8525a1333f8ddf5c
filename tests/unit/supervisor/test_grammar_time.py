"""The time that a grammar will take: the watch of the worker that has it knows, until it is over."""

from typing import Any, cast

from refloat.supervisor.child import Child
from refloat.supervisor.replica import WorkerReplica
from refloat.wire.guide import Guide
from refloat.wire.messages import Add, Capabilities, Output, Refused, SamplingParams, Step
from refloat.wire.problem import Problem, ProblemKind


class Wire:
    """A child that hears everything."""

    worker_id = 1

    def send(self, message: Any) -> None:
        """Nothing comes of it."""


def replica_with(*guides: Guide | None) -> WorkerReplica:
    replica = WorkerReplica(
        cast("Child", Wire()), cache=None, capabilities=Capabilities(), max_num_seqs=8
    )
    for number, guide in enumerate(guides, start=1):
        params = SamplingParams(max_tokens=8, guide=guide)
        replica.send(Add(number, 1, b"", 0, params))
    return replica


def test_time_of_a_batch_is_that_of_its_grammars() -> None:
    replica = replica_with(Guide("x", 1.5), None, Guide("y", 2.0), Guide("z", 4.0))
    assert replica.compile_s((1, 2, 3)) == 3.5
    assert replica.compile_s(()) == 0


def test_time_is_over_with_the_first_token_or_a_refusal() -> None:
    replica = replica_with(Guide("x", 1.5), Guide("y", 2.0))
    replica.stepped(Step(1, (Output(1, 1, 0, (5,)),)))
    assert replica.compile_s((1, 2)) == 2.0
    replica.refused(Refused(2, 1, Problem(ProblemKind.INVALID_REQUEST, "no")))
    assert replica.compile_s((1, 2)) == 0
