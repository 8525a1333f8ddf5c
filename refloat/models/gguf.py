"""Reading what a GGUF file says about its model, and whether it is whole. No tensor is read.

The file is a stranger's: every length is checked against the bytes that are there before anything is
allocated, and every error names the field it arose in.
"""

import math
import struct
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import msgspec

#: Longest string that is kept; a chat template has tens of kilobytes.
MAX_STRING_BYTES = 4 * 1024 * 1024
MAX_KEY_BYTES = 65_535
#: Entries and array elements beyond which a header is taken for garbage.
MAX_ENTRIES = 65_536
MAX_ELEMENTS = 16 * 1024 * 1024
#: Arrays up to this length are kept (EOS ids, heads of each layer); of longer ones the length only.
_KEPT_ELEMENTS = 1024
_MAX_ARRAY_DEPTH = 2

_MAGIC = b"GGUF"
_VERSIONS = (2, 3)
_STRING, _ARRAY = 8, 9
_SCALARS = {
    0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?", 10: "<Q", 11: "<q",
    12: "<d",
}  # fmt: skip


class GgufError(ValueError):
    """Not a GGUF file that can be read; the message names the field."""


class GgufFacts(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the metadata say; `None` where they say nothing. Written as `gguf.json` by a conversion."""

    architecture: str
    name: str | None = None
    context_length: int | None = None
    embedding_length: int | None = None
    block_count: int | None = None
    head_count: int | None = None
    head_count_kv: int | None = None
    key_length: int | None = None
    vocab_size: int | None = None
    eos_token_ids: tuple[int, ...] = ()
    bos_token_id: int | None = None
    chat_template: str | None = None


#: Numbers in a block of a tensor's type, and its bytes. Of an unknown type only the start counts.
_TENSOR_BLOCKS = {
    0: (1, 4), 1: (1, 2), 2: (32, 18), 3: (32, 20), 6: (32, 22), 7: (32, 24), 8: (32, 34),
    9: (32, 40), 10: (256, 84), 11: (256, 110), 12: (256, 144), 13: (256, 176), 14: (256, 210),
    15: (256, 292), 24: (1, 1), 25: (1, 2), 26: (1, 4), 27: (1, 8), 28: (1, 8), 30: (1, 2),
}  # fmt: skip
_ALIGNMENT = 32
_MAX_DIMENSIONS = 8


class ArrayLength(NamedTuple):
    """Stands for an array that is too long to be kept."""

    length: int


def read_gguf(path: Path) -> GgufFacts:
    """The facts of a GGUF file. Raises `GgufError` for a broken one, `OSError` for one not there.

    A file that ends before its last tensor is broken too: the engine would read beyond it and die.
    """
    size = path.stat().st_size
    with path.open("rb") as file:
        reader = _Reader(file, size)
        metadata = reader.metadata()
        needed = reader.tensors_end(_number(metadata, "general.alignment") or _ALIGNMENT)
    if needed > size:
        raise GgufError(f"tensors: they need {needed} bytes, the file has {size}; is it cut short?")
    return facts_of(metadata)


def facts_of(metadata: dict[str, Any]) -> GgufFacts:
    """The facts in metadata. Raises `GgufError` for a field of the wrong type."""
    architecture = metadata.get("general.architecture")
    if not isinstance(architecture, str) or not architecture:
        raise GgufError("general.architecture: a string is expected")
    return GgufFacts(
        architecture=architecture,
        name=_text(metadata, "general.name"),
        context_length=_number(metadata, f"{architecture}.context_length"),
        embedding_length=_number(metadata, f"{architecture}.embedding_length"),
        block_count=_number(metadata, f"{architecture}.block_count"),
        head_count=_number(metadata, f"{architecture}.attention.head_count"),
        head_count_kv=_number(metadata, f"{architecture}.attention.head_count_kv"),
        key_length=_number(metadata, f"{architecture}.attention.key_length"),
        vocab_size=_length(metadata, "tokenizer.ggml.tokens"),
        eos_token_ids=_eos_ids(metadata),
        bos_token_id=_number(metadata, "tokenizer.ggml.bos_token_id"),
        chat_template=_text(metadata, "tokenizer.chat_template"),
    )


def _eos_ids(metadata: dict[str, Any]) -> tuple[int, ...]:
    ids: list[int] = []
    for key in ("eos_token_id", "eot_token_id"):
        value = _number(metadata, f"tokenizer.ggml.{key}")
        if value is not None and value not in ids:
            ids.append(value)
    return tuple(ids)


def _number(metadata: dict[str, Any], key: str) -> int | None:
    """An integer; of a list with one for each layer the largest."""
    value = metadata.get(key)
    if value is None:
        return None
    values: list[Any] = value if isinstance(value, list) else [value]  # pyright: ignore[reportUnknownVariableType]
    if not all(isinstance(entry, int) and not isinstance(entry, bool) for entry in values):
        raise GgufError(f"{key}: a natural number is expected")
    largest = max(values, default=0)
    if not values or largest < 0:
        raise GgufError(f"{key}: a natural number is expected")
    return largest


def _text(metadata: dict[str, Any], key: str) -> str | None:
    value = metadata.get(key)
    if value is not None and not isinstance(value, str):
        raise GgufError(f"{key}: a string is expected")
    return value


def _length(metadata: dict[str, Any], key: str) -> int | None:
    value = metadata.get(key)
    if isinstance(value, ArrayLength):
        return value.length
    return len(value) if isinstance(value, list) else None  # pyright: ignore[reportUnknownArgumentType]


class _Reader:
    """Reads one header from its start, never beyond the file's end."""

    def __init__(self, file: BinaryIO, size: int) -> None:
        self._file = file
        self._left = size
        self._size = size
        self._field = "header"
        self._tensors = 0

    def metadata(self) -> dict[str, Any]:
        if self._take(4) != _MAGIC:
            raise GgufError("magic: not a GGUF file")
        version = self._scalar("<I")
        if version not in _VERSIONS:
            raise GgufError(f"version: {version} is not one of {_VERSIONS}")
        self._tensors = self._count("tensors", MAX_ENTRIES)
        entries = self._count("entries", MAX_ENTRIES)
        found: dict[str, Any] = {}
        for index in range(entries):
            self._field = f"entry {index}"
            key = self._string(MAX_KEY_BYTES)
            self._field = key
            found[key] = self._value(self._scalar("<I"), depth=0)
        return found

    def tensors_end(self, alignment: int) -> int:
        """Bytes that the file must have for all its tensors; after `metadata`."""
        end = 0
        for index in range(self._tensors):
            self._field = f"tensor {index}"
            self._string(MAX_KEY_BYTES)
            dimensions = self._scalar("<I")
            if dimensions > _MAX_DIMENSIONS:
                raise GgufError(f"{self._field}: {dimensions} dimensions cannot be")
            numbers = math.prod(self._scalar("<Q") for _ in range(dimensions))
            per_block, block_bytes = _TENSOR_BLOCKS.get(self._scalar("<I"), (1, 0))
            end = max(end, self._scalar("<Q") + numbers // per_block * block_bytes)
        data_start = -(-(self._size - self._left) // alignment) * alignment
        return data_start + end if self._tensors else 0

    def _value(self, kind: int, *, depth: int) -> Any:
        if kind == _STRING:
            return self._string(MAX_STRING_BYTES)
        if kind == _ARRAY:
            return self._array(depth)
        if kind not in _SCALARS:
            raise GgufError(f"{self._field}: value type {kind} is unknown")
        return self._scalar(_SCALARS[kind])

    def _array(self, depth: int) -> list[Any] | ArrayLength:
        if depth >= _MAX_ARRAY_DEPTH:
            raise GgufError(f"{self._field}: arrays nested too deep")
        kind = self._scalar("<I")
        length = self._count("elements", MAX_ELEMENTS)
        if length <= _KEPT_ELEMENTS:
            return [self._value(kind, depth=depth + 1) for _ in range(length)]
        if kind in _SCALARS:
            self._skip(length * struct.calcsize(_SCALARS[kind]))
        elif kind == _STRING:
            for _ in range(length):
                self._skip(self._scalar("<Q"))
        else:
            for _ in range(length):
                self._value(kind, depth=depth + 1)
        return ArrayLength(length)

    def _count(self, what: str, most: int) -> int:
        count: int = self._scalar("<Q")
        if count > most or count > self._left:  # each takes a byte at least
            raise GgufError(f"{self._field}: {count} {what} cannot be")
        return count

    def _string(self, most: int) -> str:
        length: int = self._scalar("<Q")
        if length > most:
            raise GgufError(f"{self._field}: a string of {length} bytes is too long")
        return self._take(length).decode(errors="replace")

    def _scalar(self, form: str) -> Any:
        return struct.unpack(form, self._take(struct.calcsize(form)))[0]

    def _take(self, count: int) -> bytes:
        self._reserve(count)
        data = self._file.read(count)
        if len(data) != count:
            raise GgufError(f"{self._field}: the file ends inside it")
        return data

    def _skip(self, count: int) -> None:
        self._reserve(count)
        self._file.seek(count, 1)

    def _reserve(self, count: int) -> None:
        if count > self._left:
            raise GgufError(f"{self._field}: the file ends inside it")
        self._left -= count
