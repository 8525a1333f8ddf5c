"""By what a repeated request is known: its tenant's idempotency key, or an SDK's unchanged body."""

import asyncio
from collections.abc import Generator
from contextlib import contextmanager

from refloat.generation.kept import Kept
from refloat.wire.problem import ProblemError, ProblemKind

#: Tenant and idempotency key.
Owner = tuple[str, str]


class Claim:
    """The first request with a key: on its way to a generation, or with one."""

    def __init__(self, body_digest: bytes) -> None:
        self.body_digest = body_digest
        self.kept: Kept | None = None
        self._waiters: list[asyncio.Future[None]] = []
        self._is_settled = False

    def settle(self, kept: Kept | None) -> None:
        """It has a generation, or never gets one."""
        self.kept, self._is_settled = kept, True
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)

    async def settled(self) -> Kept | None:
        """Its generation, once that is decided."""
        if not self._is_settled:
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            await waiter
        return self.kept


class Claims:
    """All that are remembered."""

    def __init__(self) -> None:
        self._by_key: dict[Owner, Claim] = {}
        self._by_body: dict[tuple[str, bytes], list[Kept]] = {}

    def find(self, owner: Owner, body_digest: bytes) -> Claim | None:
        """The claim of a key. Raises `ProblemError` if it was for another body."""
        claim = self._by_key.get(owner)
        if claim is not None and claim.body_digest != body_digest:
            raise ProblemError.of(
                ProblemKind.IDEMPOTENCY_MISMATCH,
                "This Idempotency-Key came before with another body or for another route.",
                param="Idempotency-Key",
            )
        return claim

    @contextmanager
    def taken(self, owner: Owner, body_digest: bytes) -> Generator[Claim]:
        """A new claim; gone again, and everybody who waits for it told, if the context is left by an
        exception."""
        claim = self._by_key[owner] = Claim(body_digest)
        try:
            yield claim
        except BaseException:
            del self._by_key[owner]
            claim.settle(None)
            raise

    def remember_body(self, kept: Kept) -> None:
        """Whoever repeats the body of this one may be meant for it."""
        self._by_body.setdefault(_body_of(kept), []).append(kept)

    def left_behind(self, tenant: str, body_digest: bytes) -> list[Kept]:
        """Those with this body, the oldest first."""
        return self._by_body.get((tenant, body_digest), [])

    def forget(self, kept: Kept) -> None:
        """Nobody is given this one's answer any more. Idempotent."""
        key = kept.retention.idempotency_key
        claim = self._by_key.get((kept.tenant, key)) if key is not None else None
        if claim is not None and claim.kept is kept:
            del self._by_key[kept.tenant, key or ""]
        same = self._by_body.get(_body_of(kept), [])
        if kept in same:
            same.remove(kept)
            if not same:
                del self._by_body[_body_of(kept)]


def _body_of(kept: Kept) -> tuple[str, bytes]:
    return kept.tenant, kept.retention.body_digest
