"""What a JSON body will take in memory once it is decoded, estimated from its bytes alone. Pure.

A list of empty objects takes twenty times its text; so bodies are paid for by this, not by their
length, and before they are decoded. Never too little by much; too much for texts that hold JSON.
"""

_OBJECT_BYTES = 240
_LIST_BYTES = 96
_VALUE_BYTES = 40
_QUOTE_BYTES = 28  # two of them enclose a text
_BEYOND_16_BITS = (b"\xf0", b"\xf1", b"\xf2", b"\xf3", b"\xf4", b"\\ud", b"\\uD")


def decoded_bytes(data: bytes) -> int:
    """An upper estimate."""
    return (
        len(data) * _character_bytes(data)
        + data.count(b"{") * _OBJECT_BYTES
        + data.count(b"[") * _LIST_BYTES
        + data.count(b",") * _VALUE_BYTES
        + data.count(b'"') * _QUOTE_BYTES
    )


def _character_bytes(data: bytes) -> int:
    """Of the widest character: all of a text take as much as that."""
    if data.isascii() and b"\\u" not in data:
        return 1
    return 4 if any(mark in data for mark in _BEYOND_16_BITS) else 2
