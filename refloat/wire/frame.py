"""Frames: a 4-byte big-endian length, then one msgpack message. No I/O here.

`FrameBuffer` turns a stream of bytes, cut anywhere, into whole payloads; it is used by both ends.
"""

from collections.abc import Iterator

import msgspec

#: A frame longer than this is taken for garbage. The longest honest one is a token table.
MAX_FRAME_BYTES = 64 * 1024 * 1024

_HEADER_BYTES = 4


class FrameError(Exception):
    """The bytes are not frames of ours; the sender can no longer be trusted."""


_encoder = msgspec.msgpack.Encoder()


def encode_frame(message: msgspec.Struct) -> bytes:
    """One message as a frame. Raises `FrameError` if it would be too long to be accepted."""
    payload = bytearray(_HEADER_BYTES)
    _encoder.encode_into(message, payload, _HEADER_BYTES)
    length = len(payload) - _HEADER_BYTES
    if length > MAX_FRAME_BYTES:
        raise FrameError(f"frame of {length} bytes; at most {MAX_FRAME_BYTES} are allowed")
    payload[:_HEADER_BYTES] = length.to_bytes(_HEADER_BYTES, "big")
    return bytes(payload)


class FrameBuffer:
    """Collects received bytes and yields each complete frame's payload once."""

    def __init__(self) -> None:
        self._pending = bytearray()

    def feed(self, data: bytes) -> None:
        """Append bytes as they were received."""
        self._pending += data

    def payloads(self) -> Iterator[bytes]:
        """Complete payloads, in order. Raises `FrameError` for a length no sender of ours sends."""
        pending = self._pending
        start = 0
        try:
            while len(pending) - start >= _HEADER_BYTES:
                length = int.from_bytes(pending[start : start + _HEADER_BYTES], "big")
                if length > MAX_FRAME_BYTES:
                    raise FrameError(f"frame of {length} bytes announced")
                end = start + _HEADER_BYTES + length
                if len(pending) < end:
                    break
                payload = bytes(pending[start + _HEADER_BYTES : end])
                start = end
                yield payload
        finally:
            del pending[:start]

    @property
    def is_empty(self) -> bool:
        """Whether no partial frame is waiting (EOF is only clean if so)."""
        return not self._pending
