"""The file of bearer keys: one a line. Reads it, and says what is wrong with it; never shows a key."""

from pathlib import Path

MAX_FILE_BYTES = 1024 * 1024


class KeyFileError(ValueError):
    """The key file cannot be used; the message never holds a key."""


def read_api_keys(path: str | Path) -> tuple[str, ...]:
    """The keys of a file, without the white space around them; blank lines are skipped.

    Raises `KeyFileError` for a file that cannot be read or holds no key, and for a key that no
    `Authorization` header could carry.
    """
    try:
        with Path(path).open("rb") as file:
            raw = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise KeyFileError(f"{path} cannot be read: {error.strerror}") from error
    if len(raw) > MAX_FILE_BYTES:
        raise KeyFileError(f"{path} is larger than {MAX_FILE_BYTES} bytes")
    keys: list[str] = []
    for number, line in enumerate(raw.splitlines(), start=1):
        key = line.strip()
        if not key:
            continue
        if any(byte <= 0x20 or byte >= 0x7F for byte in key):
            raise KeyFileError(f"{path}, line {number}: a key is printable ASCII without spaces")
        keys.append(key.decode("ascii"))
    if not keys:
        raise KeyFileError(f"{path} holds no key")
    return tuple(dict.fromkeys(keys))
