"""A raw-socket load client: one thread, one selector, nothing parsed that need not be.

It counts events and notes times; its own CPU time is reported, since it shares the machine with what
it measures.
"""

import json
import re
import selectors
import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from urllib.parse import urlsplit


class LoadError(Exception):
    """A stream did not end as a stream has to end."""


class LoadResult(NamedTuple):
    """What one round of streams gave."""

    wall_s: float
    tokens: int
    ttft_s: tuple[float, ...]
    """Of each stream, from the last byte sent to the first event with text."""
    client_cpu_s: float


@dataclass
class _Stream:
    connection: socket.socket
    sent_at: float = 0.0
    first_at: float = 0.0
    tail: bytes = b""
    tokens: int = 0
    done: bool = False
    head: bytearray = field(default_factory=bytearray)


#: Every event with text has it, and the first one of a stream marks its first token.
_TEXT_MARK = b'"text":"'
#: The usage chunk, last before the end: the server's own count, checked by the caller.
_USAGE = re.compile(rb'"completion_tokens":(\d+)')
_END = b"data: [DONE]"
_TAIL_BYTES = 512


def run_streams(
    url: str, bodies: Sequence[dict[str, Any]], *, deadline_s: float = 300.0
) -> LoadResult:
    """Send every body to /v1/completions at once, streaming, and read all to their end.

    Raises `LoadError` for a status other than 200, a cut stream, or no end within the deadline.
    """
    parts = urlsplit(url)
    address = (parts.hostname or "127.0.0.1", parts.port or 80)
    streams = [_Stream(socket.create_connection(address, timeout=10)) for _ in bodies]
    cpu_before = time.process_time()
    started = time.perf_counter()
    with selectors.DefaultSelector() as selector:
        for stream, body in zip(streams, bodies, strict=True):
            stream.connection.sendall(_request(body))
            stream.sent_at = time.perf_counter()
            stream.connection.setblocking(False)
            selector.register(stream.connection, selectors.EVENT_READ, stream)
        left = len(streams)
        while left:
            ready = selector.select(timeout=deadline_s)
            if not ready or time.perf_counter() - started > deadline_s:
                raise LoadError(f"{left} streams had not ended after {deadline_s:g} s")
            for key, _ in ready:
                stream: _Stream = key.data
                _read(stream)
                if stream.done:
                    selector.unregister(stream.connection)
                    stream.connection.close()
                    left -= 1
    return LoadResult(
        time.perf_counter() - started,
        sum(stream.tokens for stream in streams),
        tuple(stream.first_at - stream.sent_at for stream in streams),
        time.process_time() - cpu_before,
    )


def _request(body: dict[str, Any]) -> bytes:
    payload = json.dumps(
        {**body, "stream": True, "stream_options": {"include_usage": True}}
    ).encode()
    head = (
        "POST /v1/completions HTTP/1.1\r\nHost: bench\r\nContent-Type: application/json\r\n"
        f"Connection: close\r\nContent-Length: {len(payload)}\r\n\r\n"
    )
    return head.encode() + payload


def _read(stream: _Stream) -> None:
    data = stream.connection.recv(1 << 16)
    if not data:
        raise LoadError(f"a stream was cut: {stream.tail[-200:]!r}")
    if len(stream.head) < 512:
        stream.head += data[:512]
        if not stream.head.startswith(b"HTTP/1.1 200"):
            raise LoadError(f"refused: {bytes(stream.head)!r}")
    # A mark may straddle two reads, so the end of what came before is looked at again.
    window = stream.tail + data
    if not stream.first_at and _TEXT_MARK in window:
        stream.first_at = time.perf_counter()
    if _END in window:
        usage = _USAGE.search(window)
        if usage is None:
            raise LoadError(f"a stream ended without usage: {window[-200:]!r}")
        stream.tokens = int(usage[1])
        stream.done = True
    stream.tail = window[-_TAIL_BYTES:]
