"""Hashes of model files, kept so that gigabytes are read once and not at every start."""

import contextlib
import hashlib
import os
import secrets
from collections.abc import Callable, Iterable
from pathlib import Path

import msgspec

#: Read at a time; also how often progress is reported.
CHUNK_BYTES = 8 * 1024 * 1024

_MAX_KEPT = 4096


class _Kept(msgspec.Struct, frozen=True):
    stamp: tuple[int, ...]
    sha256: str


class HashCache:
    """sha256 of files by path, trusted while size, inode and both time stamps stand still.

    Lives in one JSON file, replaced whole; two processes at once may lose an entry, never mix two.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._kept = self._read()

    def sha256(self, path: Path, read: Callable[[int], None]) -> str:
        """The file's hash. `read` is told how many more bytes are done."""
        key = os.path.abspath(path)
        before = _stamp(path)
        kept = self._kept.get(key)
        if kept is not None and kept.stamp == before:
            read(before[0])
            return kept.sha256
        digest = hash_file(path, read)
        if _stamp(path) == before:
            self._kept[key] = _Kept(before, digest)
        return digest

    def save(self) -> None:
        """Write down what is known. Failing to is harmless: the next start hashes again."""
        recent = dict(list(self._kept.items())[-_MAX_KEPT:])
        temporary = self._path.with_name(f"{self._path.name}.{secrets.token_hex(4)}")
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            temporary.write_bytes(msgspec.json.encode(recent))
            temporary.replace(self._path)
        except OSError:
            with contextlib.suppress(OSError):
                temporary.unlink()

    def _read(self) -> dict[str, _Kept]:
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=dict[str, _Kept])
        except (OSError, msgspec.DecodeError):
            return {}


def hash_file(path: Path, read: Callable[[int], None]) -> str:
    """sha256 of a file's content, as hex."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(CHUNK_BYTES):
            digest.update(chunk)
            read(len(chunk))
    return digest.hexdigest()


def model_hash(files: Iterable[Path], hashes: HashCache, read: Callable[[int], None]) -> str:
    """One hash over names and contents, in the order of names; independent of where they lie."""
    digest = hashlib.sha256()
    for path in sorted(files, key=lambda file: file.name):
        digest.update(f"{path.name}\0{hashes.sha256(path, read)}\n".encode())
    return digest.hexdigest()


def _stamp(path: Path) -> tuple[int, ...]:
    status = path.stat()
    return (status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino)
