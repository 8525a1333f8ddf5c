"""Bearer keys and tenants: who calls, compared in constant time and never written anywhere."""

import hashlib
import hmac
import ipaddress
from collections.abc import Iterable

from starlette.types import Scope

from refloat.api.facts import header_of


class KeyRing:
    """The keys that open this server; an empty ring opens it to everybody."""

    def __init__(self, keys: Iterable[str]) -> None:
        digests = {_digest(key.strip().encode()) for key in keys if key.strip()}
        self._digests = sorted(digests)

    @property
    def is_open(self) -> bool:
        """No key is asked for."""
        return not self._digests

    def tenant_of(self, key: bytes) -> str | None:
        """The tenant of a key; `None` for a wrong one. Looks at every key, whatever it finds."""
        given = _digest(key)
        found = False
        for digest in self._digests:
            found |= hmac.compare_digest(given, digest)
        return f"key-{given.hex()[:12]}" if found else None


def bearer_key(scope: Scope) -> bytes | None:
    """The key in the Authorization header, if there is one of that form."""
    value = header_of(scope, b"authorization")
    if value is None:
        return None
    scheme, _, key = value.strip().partition(b" ")
    return key.strip() or None if scheme.lower() == b"bearer" else None


def tenant_of_address(scope: Scope) -> str:
    """The tenant of a caller without a key: its address, of IPv6 the /64 that one site has."""
    client = scope.get("client")
    if not client:
        return "local"
    try:
        address = ipaddress.ip_address(client[0])
    except ValueError:
        return f"ip-{client[0]}"
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped is not None:
            return f"ip-{address.ipv4_mapped}"
        network = ipaddress.IPv6Network((int(address), 64), strict=False)
        return f"ip-{network.network_address}/64"
    return f"ip-{address}"


def is_local_caller(scope: Scope) -> bool:
    """Whether the connection comes from this machine: over loopback, or over no network at all."""
    client = scope.get("client")
    if not client:
        return True
    try:
        address = ipaddress.ip_address(client[0])
    except ValueError:
        return False
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    return address.is_loopback


def _digest(key: bytes) -> bytes:
    return hashlib.sha256(key).digest()
