"""Bearer keys, tenants and their rights: who calls, compared in constant time and never written."""

import hashlib
import hmac
import ipaddress
import socket
from collections.abc import Iterable

from starlette.types import Scope

from refloat.api.facts import header_of
from refloat.api.grant import PLAIN, Grant
from refloat.config.key_rights import KeyRights, tenant_of


class KeyRing:
    """The keys that open this server; an empty ring opens it to everybody."""

    def __init__(self, keys: Iterable[str], rights: Iterable[KeyRights] = ()) -> None:
        """A key that is in both has what `rights` say."""
        known: dict[bytes, tuple[str | None, Grant]] = {
            digest_of(key.strip().encode()): (None, PLAIN) for key in keys if key.strip()
        }
        for right in rights:
            grant = Grant(right.priority, right.finish_orphans, right.max_requests, right.admin)
            known[right.digest] = (right.name, grant)
        self._known = dict(sorted(known.items()))

    @property
    def is_open(self) -> bool:
        """No key is asked for."""
        return not self._known

    def holder_of(self, key: bytes) -> tuple[str, Grant] | None:
        """Tenant and rights of a key; `None` for a wrong one. Looks at every key, whatever it
        finds."""
        given = digest_of(key)
        found: tuple[str | None, Grant] | None = None
        for digest, holder in self._known.items():
            if hmac.compare_digest(given, digest):
                found = holder
        if found is None:
            return None
        name, grant = found
        return tenant_of(name or given.hex()[:12]), grant


def given_key(scope: Scope) -> bytes | None:
    """The key in the Authorization header, if there is one of that form, else in X-Api-Key, where
    Anthropic's clients put it."""
    value = header_of(scope, b"authorization")
    if value is None:
        return (header_of(scope, b"x-api-key") or b"").strip() or None
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


def names_this_machine(scope: Scope) -> bool:
    """Whether the Host header is an address, a name that no DNS server can give away, or missing."""
    host = (header_of(scope, b"host") or b"localhost").strip().lower()
    before, _, port = host.rpartition(b":")
    name = before if port.isdigit() else host
    if name in (b"localhost", socket.gethostname().lower().encode()):
        return True
    try:
        ipaddress.ip_address(name.decode("latin-1").strip("[]"))
    except ValueError:
        return False
    return True


def digest_of(key: bytes) -> bytes:
    """In place of the key, wherever it is kept."""
    return hashlib.sha256(key).digest()
