"""From the states of a model's two children to what a request for it meets. Pure."""

from typing import assert_never

from refloat.supervisor.fleet import Availability
from refloat.supervisor.lifecycle import WorkerState


def availability_of(
    worker: WorkerState, prep: WorkerState, *, was_ready: bool, is_stopping: bool
) -> Availability:
    """What a model is. `was_ready`: it has served once. A prep that is being restarted after that
    costs its jobs a moment and the model nothing; one that has failed makes it useless."""
    if is_stopping:
        return Availability.DRAINING
    if prep in (WorkerState.FAILED, WorkerState.STUCK):
        return Availability.FAILED
    match worker:
        case WorkerState.READY:
            return Availability.READY
        case WorkerState.FAILED | WorkerState.STUCK:
            return Availability.FAILED
        case WorkerState.DRAINING:
            return Availability.DRAINING
        case (
            WorkerState.SPAWNING
            | WorkerState.LOADING
            | WorkerState.PROBING
            | WorkerState.SUSPECT
            | WorkerState.EXITED
            | WorkerState.BACKOFF
        ):
            return Availability.RECOVERING if was_ready else Availability.LOADING
        case _:
            assert_never(worker)
