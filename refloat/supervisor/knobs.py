"""What a supervisor's timing depends on beyond a model's own settings. Tests scale it down."""

import sys
from dataclasses import dataclass, field, replace
from typing import Self

from refloat.supervisor.backoff import BackoffPolicy, CrashBudget
from refloat.wire.frame import MAX_FRAME_BYTES

_LOOKS_IN_A_FLOOR = 10.0
_LEAST_POLL_S = 0.02


@dataclass(frozen=True, slots=True)
class Knobs:
    """All times in seconds."""

    worker_command: tuple[str, ...] = (sys.executable, "-m", "refloat.worker")
    prep_command: tuple[str, ...] = (sys.executable, "-m", "refloat.prep")
    poll_s: float = 0.25
    """Between two looks at a child."""
    hello_timeout_s: float = 30.0
    """Without progress before a child has said `Hello`."""
    step_cap_s: float = 180.0
    """A step that uses processor time may take this long: kernels compile at new shapes."""
    load_cap_factor: float = 10.0
    """A load that uses processor time may take this many times `load_timeout_s`."""
    kill_grace_s: float = 0.25
    """Between EOF and SIGKILL, so that a child on its way out can leave its exit code; and between
    the request for a hung child's stacks and SIGKILL."""
    reap_timeout_s: float = 30.0
    """After SIGKILL; a large worker's teardown by the kernel takes a second or so."""
    crash_limit: int = 5
    crash_window_s: float = 60.0
    cooldown_s: float = 60.0
    """From the breaker's opening to the next try."""
    backoff: BackoffPolicy = field(default_factory=BackoffPolicy)
    leave_s: float = 5.0
    """A child asked to leave gets this long, half of it before SIGTERM, unless `stop` says less."""
    prep_load_timeout_s: float = 60.0
    prep_job_limit_s: float = 10.0
    """A job's time in prep once it is its turn; longer is a hang."""
    prep_wait_limit_s: float = 30.0
    """A job's time in all, with those before it and a restart of prep."""
    worker_pending_bytes: int = 2 * MAX_FRAME_BYTES
    prep_pending_bytes: int = 10 * MAX_FRAME_BYTES

    def crash_budget(self) -> CrashBudget:
        """A budget that nothing was charged to yet."""
        return CrashBudget(self.crash_limit, self.crash_window_s)

    def for_floor(self, stall_floor_s: float) -> Self:
        """The same, with looks frequent enough that half of a small floor is not overlooked."""
        poll_s = min(self.poll_s, max(_LEAST_POLL_S, stall_floor_s / _LOOKS_IN_A_FLOOR))
        return replace(self, poll_s=poll_s)
