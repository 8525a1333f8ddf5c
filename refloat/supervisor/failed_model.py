"""A model that never gets a process: its files could not be had, or its settings make no sense."""

from refloat.supervisor.fleet import Availability, Fleet, ModelSnapshot
from refloat.wire.faults import FaultKind
from refloat.wire.paths import without_folders


def publish_failed(
    fleet: Fleet,
    *,
    name: str,
    created: int,
    reason: str,
    cause: FaultKind = FaultKind.BAD_CONFIGURATION,
) -> ModelSnapshot:
    """Publish a FAILED model without any worker, so that requests and health say why."""
    snapshot = ModelSnapshot(
        name=name,
        created=created,
        availability=Availability.FAILED,
        workers=(),
        facts=None,
        reason=without_folders(reason),
        cause=cause,
    )
    fleet.publish(snapshot)
    return snapshot
