"""What of a generation request is not in its body: who sent it, and what its headers ask for."""

import re
from dataclasses import dataclass
from enum import StrEnum
from hashlib import blake2b
from math import isfinite

from refloat.api.errors import invalid
from refloat.api.facts import Call
from refloat.api.schema.checks import MAX_TIMEOUT_S
from refloat.api.schema.shared import Wishes
from refloat.generation.request import Retention
from refloat.wire.problem import ProblemError, ProblemKind

_NUMBER = re.compile(rb"\d{1,9}(\.\d{1,6})?")
_KEY = re.compile(rb"[\x21-\x7e]{1,255}")


class Leaving(StrEnum):
    """What becomes of a generation whose client leaves."""

    CANCEL = "cancel"
    FINISH = "finish"


@dataclass(frozen=True, slots=True)
class Caller:
    """Everything but the body."""

    request_id: str
    tenant: str
    timeout_s: float | None = None
    """Seconds until the answer has to be whole."""
    leaving: Leaving | None = None
    priority: int = 0
    finish_orphans: int = 0
    """Answers of the tenant that may go on without their client."""
    idempotency_key: str | None = None
    sdk_retry: int | None = None
    """How often an SDK has tried this before; `None`: no SDK that retries by itself."""


def caller_of(call: Call, *, finish_orphans: int) -> Caller:
    """From the headers. `finish_orphans`: for keys that say nothing of it. Raises `ProblemError`."""
    facts, granted = call.facts, call.facts.grant.finish_orphans
    return Caller(
        request_id=facts.request_id,
        tenant=facts.tenant,
        timeout_s=_timeout_s(call.header(b"x-request-timeout")),
        leaving=_leaving(call.header(b"x-on-disconnect")),
        priority=facts.grant.priority,
        finish_orphans=finish_orphans if granted is None else granted,
        idempotency_key=_idempotency_key(call.header(b"idempotency-key")),
        sdk_retry=_sdk_retry(call.header(b"x-stainless-retry-count")),
    )


def deadline_s(body: Wishes, caller: Caller) -> float | None:
    """Seconds that the answer may take; the body's word wins over the header's."""
    return caller.timeout_s if body.request_timeout_s is None else body.request_timeout_s


def retention_of(body: Wishes, caller: Caller, route: str, data: bytes) -> Retention | None:
    """What is to become of the answer beside being sent to this client; `None`: nothing asked for.

    Raises `ProblemError` for what this caller may not ask for.
    """
    said = body.on_disconnect or caller.leaving
    finish = said == Leaving.FINISH
    if finish and not caller.finish_orphans:
        message = "on_disconnect: finish is not granted to you (setting finish_orphans)."
        raise ProblemError.of(ProblemKind.FORBIDDEN, message, param="on_disconnect")
    is_known_by_body = caller.idempotency_key is not None or caller.sdk_retry is not None
    if not (said or is_known_by_body or body.stream):
        return None
    return Retention(
        stream=bool(body.stream),
        cancel=said == Leaving.CANCEL,
        finish_quota=caller.finish_orphans if finish else 0,
        idempotency_key=caller.idempotency_key,
        sdk_retry=caller.sdk_retry,
        body_digest=_digest(route, data) if is_known_by_body else b"",
    )


def _digest(route: str, data: bytes) -> bytes:
    return blake2b(data, digest_size=16, key=route.encode()).digest()


def _timeout_s(value: bytes | None) -> float | None:
    if value is None:
        return None
    seconds = float(value) if _NUMBER.fullmatch(value.strip()) else 0.0
    if not isfinite(seconds) or not 0 < seconds <= MAX_TIMEOUT_S:
        message = f"X-Request-Timeout has to be seconds, above 0 and at most {MAX_TIMEOUT_S}."
        raise invalid(message, "X-Request-Timeout")
    return seconds


def _leaving(value: bytes | None) -> Leaving | None:
    if value is None:
        return None
    try:
        return Leaving(value.decode("latin-1").strip().lower())
    except ValueError:
        message = "X-On-Disconnect has to be cancel or finish."
        raise invalid(message, "X-On-Disconnect") from None


def _idempotency_key(value: bytes | None) -> str | None:
    if value is None:
        return None
    if not _KEY.fullmatch(value.strip()):
        message = "Idempotency-Key has to be 1 to 255 printable ASCII characters without spaces."
        raise invalid(message, "Idempotency-Key")
    return value.strip().decode()


def _sdk_retry(value: bytes | None) -> int | None:
    """A header that an SDK sends by itself is never worth a refusal."""
    return int(value) if value is not None and value.isdigit() and len(value) < 6 else None
