"""Keys that may do more or less than others (`keys:` of the server), read strictly; never shows a key.

A key is given as a file that holds nothing else, or as its SHA-256, so that the configuration itself
is no secret.
"""

import hashlib
import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from refloat.config.keys import KeyFileError, read_api_keys

_NAME = re.compile(r"[A-Za-z0-9._-]{1,64}")
_SHA256 = re.compile(r"[0-9a-f]{64}")

_Priority = Annotated[int, Meta(ge=-100, le=100)]
_Count = Annotated[int, Meta(ge=0)]
_Weight = Annotated[float, Meta(gt=0, le=1000)]
_AtLeastOne = Annotated[int, Meta(ge=1)]


class KeyRightsError(ValueError):
    """Entries that cannot be meant; the message names the entry and the field."""


class KeyEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One key, as an operator writes it."""

    name: str
    """Its tenant's name in logs, unique: letters, digits, `.`, `_`, `-`."""
    key_file: str | None = None
    """File that holds this key alone."""
    sha256: str | None = None
    """In place of the file: the key's SHA-256, in hexadecimal digits."""
    priority: _Priority = 0
    """Of its requests; the higher goes first."""
    weight: _Weight = 1.0
    """Of its share of the slots beside other tenants' that wait, or run."""
    finish_orphans: _Count | None = None
    """In place of the server's `finish_orphans`."""
    max_requests: _AtLeastOne | None = None
    """Requests it may have under way at a time; one more is refused with 429."""
    admin: bool = False
    """Whether it opens the operator's routes (`/admin/`)."""


def tenant_of(name: str) -> str:
    """The tenant that a key of this name, or with this digest, is."""
    return f"key-{name}"


def tenant_weights(entries: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Of the tenants whose keys have one. Raises `KeyRightsError`."""
    read = (_entry(index, given) for index, given in enumerate(entries))
    return {tenant_of(entry.name): entry.weight for entry in read if entry.weight != 1.0}


class KeyRights(msgspec.Struct, frozen=True):
    """What one key opens."""

    name: str
    digest: bytes
    """SHA-256 of the key."""
    priority: int = 0
    finish_orphans: int | None = None
    max_requests: int | None = None
    admin: bool = False


def read_key_rights(entries: Sequence[Mapping[str, Any]]) -> tuple[KeyRights, ...]:
    """All entries, their keys' files read. Raises `KeyRightsError`."""
    rights = tuple(_read(index, entry) for index, entry in enumerate(entries))
    for what, values in (
        ("name", [right.name for right in rights]),
        ("key", [right.digest.hex() for right in rights]),
    ):
        again = next((i for i, value in enumerate(values) if value in values[:i]), None)
        if again is not None:
            raise KeyRightsError(f"keys[{again}]: its {what} is that of an earlier entry")
    return rights


def _entry(index: int, given: Mapping[str, Any]) -> KeyEntry:
    try:
        return msgspec.convert(given, KeyEntry)
    except msgspec.ValidationError as error:
        raise KeyRightsError(f"keys[{index}]: {error}") from error


def _read(index: int, given: Mapping[str, Any]) -> KeyRights:
    entry = _entry(index, given)
    if not _NAME.fullmatch(entry.name):
        raise KeyRightsError(
            f"keys[{index}]: name has to be 1 to 64 letters, digits, '.', '_' or '-'"
        )
    return KeyRights(
        name=entry.name,
        digest=_digest(index, entry),
        priority=entry.priority,
        finish_orphans=entry.finish_orphans,
        max_requests=entry.max_requests,
        admin=entry.admin,
    )


def _digest(index: int, entry: KeyEntry) -> bytes:
    if (entry.key_file is None) == (entry.sha256 is None):
        raise KeyRightsError(f"keys[{index}]: give key_file or sha256")
    if entry.sha256 is not None:
        if not _SHA256.fullmatch(entry.sha256.lower()):
            raise KeyRightsError(f"keys[{index}]: sha256 has to be 64 hexadecimal digits")
        return bytes.fromhex(entry.sha256)
    try:
        keys = read_api_keys(entry.key_file or "")
    except KeyFileError as error:
        raise KeyRightsError(f"keys[{index}]: {error}") from error
    if len(keys) != 1:
        raise KeyRightsError(f"keys[{index}]: {entry.key_file} holds {len(keys)} keys, not one")
    return hashlib.sha256(keys[0].encode()).digest()
