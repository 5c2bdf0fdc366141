"""Run files as wandb writes them: frames of a LevelDB log around protobuf messages."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence

BLOCK = 32_768
HEADER = b":W&B\xe1\xbe\x00"


def wandb_file(records: Sequence[bytes]) -> bytes:
    """A whole file of these records."""
    out = bytearray(HEADER)
    for record in records:
        left, first = record, True
        while left or first:
            room = BLOCK - len(out) % BLOCK
            if room < 7:
                out += b"\0" * room
                room = BLOCK
            part, left = left[: room - 7], left[room - 7 :]
            kind = (1 if not left else 2) if first else (4 if not left else 3)
            out += struct.pack("<IHB", zlib.crc32(part), len(part), kind) + part
            first = False
    return bytes(out)


def history(step: int, values: dict[str, str], *, nested: bool = True) -> bytes:
    """A record of one `run.log`; values are JSON texts."""
    items = b"".join(
        field(1, field(2 if nested else 1, key.encode()) + field(16, value.encode()))
        for key, value in values.items()
    )
    number = b"\x08" + varint(step)
    return field(2, items + field(2, number))


def field(number: int, data: bytes) -> bytes:
    """A field of bytes."""
    return varint(number << 3 | 2) + varint(len(data)) + data


def varint(value: int) -> bytes:
    """A number, seven bits a byte."""
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])
