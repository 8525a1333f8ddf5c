"""How many requests each tenant has under way, where its key says how many it may."""

from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager

from refloat.api.grant import Grant
from refloat.wire.problem import Problem, ProblemKind

_RETRY_AFTER_S = 1.0


class Allowance:
    """One for all generating routes of a gateway."""

    def __init__(self) -> None:
        self._under_way: Counter[str] = Counter()

    @contextmanager
    def taken(self, tenant: str, grant: Grant) -> Generator[None]:
        """One request of the tenant, for as long as the context lasts. Raises `ProblemError`."""
        if grant.max_requests is None:
            yield
            return
        if self._under_way[tenant] >= grant.max_requests:
            raise Problem(
                ProblemKind.QUEUE_FULL,
                f"This key may have {grant.max_requests} requests under way at a time.",
                retry_after_s=_RETRY_AFTER_S,
            ).raised()
        self._under_way[tenant] += 1
        try:
            yield
        finally:
            self._under_way[tenant] -= 1
            if not self._under_way[tenant]:
                del self._under_way[tenant]
