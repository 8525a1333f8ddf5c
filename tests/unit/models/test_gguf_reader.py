"""GGUF headers made byte by byte: good ones, cut ones, and ones made to hurt."""

import contextlib
import struct
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from refloat.models.gguf import GgufError, GgufFacts, read_gguf


def string(text: str) -> bytes:
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def value(item: Any) -> bytes:
    match item:
        case bool():
            return struct.pack("<I?", 7, item)
        case int():
            return struct.pack("<II", 4, item)
        case str():
            return struct.pack("<I", 8) + string(item)
        case list():
            parts: list[bytes] = [value(part) for part in item]  # pyright: ignore[reportUnknownVariableType]
            kind = parts[0][:4] if parts else struct.pack("<I", 4)
            body = b"".join(part[4:] for part in parts)
            return struct.pack("<I", 9) + kind + struct.pack("<Q", len(parts)) + body
        case _:
            raise AssertionError(item)


def gguf(
    entries: dict[str, Any], *, version: int = 3, tensors: bytes = b"", count: int = 0
) -> bytes:
    head = b"GGUF" + struct.pack("<IQQ", version, count, len(entries))
    return head + b"".join(string(key) + value(item) for key, item in entries.items()) + tensors


BASE: dict[str, Any] = {
    "general.architecture": "llama",
    "llama.context_length": 8192,
    "llama.embedding_length": 576,
    "llama.block_count": 30,
    "llama.attention.head_count": 9,
    "llama.attention.head_count_kv": 3,
    "tokenizer.ggml.tokens": ["a", "b", "c"],
    "tokenizer.ggml.eos_token_id": 2,
    "tokenizer.ggml.bos_token_id": 1,
    "tokenizer.chat_template": "{{ x }}",
}


@pytest.fixture
def read(tmp_path: Path) -> Any:
    def read_bytes(data: bytes) -> GgufFacts:
        path = tmp_path / "model.gguf"
        path.write_bytes(data)
        return read_gguf(path)

    return read_bytes


@pytest.mark.parametrize("version", [2, 3])
def test_good_header_gives_the_facts(read: Any, version: int) -> None:
    assert read(gguf(BASE, version=version)) == GgufFacts(
        architecture="llama",
        context_length=8192,
        embedding_length=576,
        block_count=30,
        head_count=9,
        head_count_kv=3,
        vocab_size=3,
        eos_token_ids=(2,),
        bos_token_id=1,
        chat_template="{{ x }}",
    )


def test_end_of_turn_id_is_an_eos_too(read: Any) -> None:
    assert read(gguf(BASE | {"tokenizer.ggml.eot_token_id": 7})).eos_token_ids == (2, 7)


def test_heads_given_for_each_layer_count_with_the_largest(read: Any) -> None:
    assert read(gguf(BASE | {"llama.attention.head_count_kv": [1, 4, 2]})).head_count_kv == 4


def test_long_arrays_are_counted_and_not_kept(read: Any) -> None:
    tokens = [f"t{n}" for n in range(5000)]
    entries = {"tokenizer.ggml.scores": [1] * 5000} | BASE | {"tokenizer.ggml.tokens": tokens}
    assert read(gguf(entries)).vocab_size == 5000


def tensor(numbers: int, offset: int, kind: int = 0) -> bytes:
    return string("w") + struct.pack("<IQIQ", 1, numbers, kind, offset)


def test_whole_file_is_taken_and_one_byte_less_is_not(read: Any) -> None:
    head = gguf(BASE, tensors=tensor(8, 0) + tensor(32, 32, kind=2), count=2)
    data = head + b"\0" * (-len(head) % 32) + b"\0" * (32 + 18)
    read(data)
    with pytest.raises(GgufError, match="cut short"):
        read(data[:-1])


def _number_lists(*lists: tuple[str, int, int]) -> bytes:
    """A header whose context length is a list of lists: of these forms, lengths and type codes."""
    inner = b"".join(
        struct.pack("<IQ", code, length) + struct.pack(form, 1) * length
        for form, length, code in lists
    )
    return (
        b"GGUF" + struct.pack("<IQQ", 3, 0, 2)
        + string("general.architecture") + struct.pack("<I", 8) + string("llama")
        + string("llama.context_length") + struct.pack("<IIQ", 9, 9, len(lists)) + inner
    )  # fmt: skip


@pytest.mark.parametrize(
    ("data", "word"),
    [
        (_number_lists(("<B", 3, 0), ("<B", 2000, 0)), "llama.context_length"),
        (_number_lists(("<B", 3, 0), ("<f", 3, 6)), "llama.context_length"),
        (b"", "header"),
        (b"GGUF", "header"),
        (b"PK\x03\x04" + b"\0" * 60, "magic"),
        (gguf(BASE, version=1), "version"),
        (gguf(BASE, version=99), "version"),
        (gguf({}), "general.architecture"),
        (gguf(BASE | {"general.architecture": 5}), "general.architecture"),
        (gguf(BASE | {"llama.context_length": "long"}), "llama.context_length"),
        (gguf(BASE | {"llama.context_length": True}), "llama.context_length"),
        (gguf(BASE | {"tokenizer.chat_template": 1}), "tokenizer.chat_template"),
        (b"GGUF" + struct.pack("<IQQ", 3, 0, 2**60), "entries"),
        (b"GGUF" + struct.pack("<IQQ", 3, 2**60, 0), "tensors"),
        (b"GGUF" + struct.pack("<IQQQ", 3, 0, 1, 2**62) + b"\0" * 8, "entry 0"),
        (b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + string("k") + struct.pack("<I", 77), "k"),
        (
            b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + string("k")
            + struct.pack("<IIQ", 9, 8, 2**40),
            "k",
        ),
        (
            b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + string("k")
            + struct.pack("<IIQIQIQI", 9, 9, 1, 9, 1, 9, 1, 4) + b"\0" * 64,
            "k: arrays nested",
        ),
        (gguf(BASE, tensors=string("w") + struct.pack("<I", 99), count=1), "tensor 0"),
    ],
)  # fmt: skip
def test_broken_header_is_refused_by_field(read: Any, data: bytes, word: str) -> None:
    with pytest.raises(GgufError, match=word):
        read(data)


def test_header_cut_anywhere_is_refused(read: Any) -> None:
    data = gguf(BASE)
    for length in range(len(data)):
        with pytest.raises(GgufError):
            read(data[:length])


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=200)
@given(st.data())
def test_header_with_any_byte_changed_is_read_or_refused(read: Any, data: st.DataObject) -> None:
    good = bytearray(gguf(BASE, tensors=tensor(8, 0), count=1) + b"\0" * 64)
    for _ in range(data.draw(st.integers(1, 4))):
        position = data.draw(st.integers(4, len(good) - 1))
        good[position] = data.draw(st.integers(0, 255))
    with contextlib.suppress(GgufError):
        read(bytes(good))
