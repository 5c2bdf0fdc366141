"""Messages of protocol buffers, written field by field: files as programs on accelerators write
them, which no machine of the tests has."""

from __future__ import annotations

import struct
from collections.abc import Iterable

Value = int | float | str | bytes | list["Message"]
Message = Iterable[tuple[int, Value]]


def message(fields: Message) -> bytes:
    """(number, value) in order: an int is a varint, a float a double, a text or bytes are BYTES,
    and a list holds messages of a repeated field."""
    written = bytearray()
    for number, value in fields:
        if isinstance(value, list):
            for entry in value:
                written += _bytes(number, message(entry))
        elif isinstance(value, str):
            written += _bytes(number, value.encode())
        elif isinstance(value, bytes):
            written += _bytes(number, value)
        elif isinstance(value, float):
            written += varint(number << 3 | 1) + struct.pack("<d", value)
        else:
            written += varint(number << 3) + varint(value)
    return bytes(written)


def varint(value: int) -> bytes:
    """A number; negative ones take ten bytes."""
    value &= (1 << 64) - 1
    written = bytearray()
    while value >= 0x80:
        written.append(value & 0x7F | 0x80)
        value >>= 7
    written.append(value)
    return bytes(written)


def _bytes(number: int, content: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(content)) + content
