"""The line in the log that tells of a child that is gone."""

import structlog

from refloat.supervisor.child import Child
from refloat.supervisor.exits import Fault

_LOGGED_STDERR = 2000


def log_loss(
    log: structlog.typing.FilteringBoundLogger, child: Child, fault: Fault, *, was_asked: bool
) -> None:
    """A warning, unless it was asked to leave."""
    write = log.debug if was_asked else log.warning
    write(
        "child_lost",
        worker_id=child.worker_id,
        pid=child.pid,
        cause=fault.kind,
        reason=fault.reason,
        exit_code=child.process.exit_code(),
        stderr=child.process.last_stderr()[-_LOGGED_STDERR:],
    )
