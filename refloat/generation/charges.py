"""What tenants' convicted requests cost them: who has sent too many of late has to wait.

A conviction took several workers, and everybody else's time. It is charged to the tenant who sent the
request, not to the model; the figures are in `limits.py`.
"""

from collections import deque

from refloat.wire.problem import Problem, ProblemKind


class Charges:
    """Convictions of one server's tenants. Time is passed in, as readings of one monotonic clock."""

    def __init__(self, limit: int, window_s: float) -> None:
        """`limit` convictions within `window_s` make a tenant wait until the oldest of them is past."""
        if limit < 1:
            raise ValueError(f"{limit} convictions would keep everybody out")
        self._limit = limit
        self._window_s = window_s
        self._convicted: dict[str, deque[float]] = {}

    def charge(self, tenant: str, now_s: float) -> None:
        """One of the tenant's requests was convicted."""
        self._forget(now_s)
        self._convicted.setdefault(tenant, deque(maxlen=self._limit)).append(now_s)

    def problem(self, tenant: str, now_s: float) -> Problem | None:
        """What a new request of the tenant is refused with; `None`: it is not."""
        times = self._convicted.get(tenant)
        if times is None or len(times) < self._limit:
            return None
        wait_s = times[0] + self._window_s - now_s
        if wait_s <= 0:
            return None
        minutes = self._window_s / 60
        return Problem(
            ProblemKind.TENANT_SUSPENDED,
            f"{self._limit} of your requests within {minutes:g} minutes each ended, by itself, the "
            "process that worked on it. New ones are taken again once that is past.",
            retry_after_s=wait_s,
        )

    def _forget(self, now_s: float) -> None:
        """Keep no tenant whose last conviction is past."""
        for tenant, times in list(self._convicted.items()):
            if times[-1] + self._window_s <= now_s:
                del self._convicted[tenant]
