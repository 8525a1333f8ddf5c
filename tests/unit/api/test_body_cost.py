"""The estimate of a decoded body is never much too small, whatever the body is made of."""

import json
import tracemalloc
from typing import Any

import msgspec
import pytest

from refloat.api.body_cost import decoded_bytes

SIZE = 200_000


@pytest.mark.parametrize(
    "data",
    [
        b'"%s"' % (b"x" * SIZE),
        ('"%s"' % ("é" * (SIZE // 2))).encode(),
        ('"%s東"' % ("x" * SIZE)).encode(),
        ('"%s🚲"' % ("x" * SIZE)).encode(),
        json.dumps("x" * SIZE + "🚲").encode(),
        b"[" + b"{}," * (SIZE // 3) + b"{}]",
        b"[" + b"[]," * (SIZE // 3) + b"[]]",
        b"[" + b"[0]," * (SIZE // 4) + b"[]]",
        b"[" + b"1," * (SIZE // 2) + b"1]",
        b"[" + b"12345678," * (SIZE // 9) + b"1]",
        b"[" + b"1.5," * (SIZE // 4) + b"1]",
        b"[" + b'"",' * (SIZE // 3) + b'""]',
        b"[" + b'"ab",' * (SIZE // 5) + b'""]',
        b"[" + b'{"a":1},' * (SIZE // 8) + b"{}]",
        b"{" + b",".join(b'"k%d":1' % n for n in range(SIZE // 10)) + b"}",
        json.dumps([{"role": "user", "content": "abc"}] * (SIZE // 40)).encode(),
    ],
)
def test_decoded_body_takes_no_more_than_estimated(data: bytes) -> None:
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        value: Any = msgspec.json.decode(data)
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert value is not None
    assert after - before <= 1.1 * decoded_bytes(data)


def test_prose_is_estimated_by_little_more_than_its_length() -> None:
    text = "The quick brown fox, as they say, jumps over the lazy dog. " * 1000
    body = json.dumps({"model": "m", "messages": [{"role": "user", "content": text}]}).encode()
    assert decoded_bytes(body) < 3 * len(body)
