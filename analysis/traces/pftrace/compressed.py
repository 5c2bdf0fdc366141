"""Compressed packets of a Perfetto trace, unpacked in their places.

Each holds packets as a file does, by deflate or, from Perfetto 58 on, by zstd: field numbers of
`trace_packet.proto`, contents of `zlib_compressor.cc` and `zstd_compressor.cc` (one stream each).
"""

from __future__ import annotations

import sys
import zlib
from typing import Protocol

from faultline.analysis.traces.protobuf.wire import BYTES, MAX_BYTES, Buffer, Fields

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

PADDING = bytes(16)
_DEFLATE, _ZSTD = 50, 133
CORRUPT = "compressed packets that are corrupt"


class _Decompressor(Protocol):
    @property
    def eof(self) -> bool: ...

    def decompress(self, data: bytes, max_length: int, /) -> bytes: ...


def unpacked(buffer: Buffer, outer: Fields, content: Fields) -> Buffer:
    """The same file with what the packets `outer` hold in the place of those that are compressed;
    the same buffer where none is. `content` are the packets' fields.

    What is corrupt, and what follows after MAX_BYTES, is counted as dropped.
    """
    inside = _compressed(content)
    if not inside:
        return buffer
    whole = bytearray()
    places = zip(outer.start.tolist(), outer.stop.tolist(), strict=True)
    for index, (start, stop) in enumerate(places):
        if index in inside:
            kind, begin, end = inside[index]
            packets = _decompressed(buffer, kind, begin, end, MAX_BYTES - len(whole))
        else:
            # 0x0a is the tag of field 1 with BYTES: a packet of the outer list.
            packets = b"\x0a" + _varint(stop - start) + buffer.raw[start:stop]
        if len(whole) + len(packets) > MAX_BYTES:
            whole += packets[: MAX_BYTES - len(whole)]
            buffer.dropped[f"rest of the file after {MAX_BYTES} bytes"] = 1
            break
        whole += packets
    length = len(whole)
    return Buffer(buffer.name, whole + PADDING, length, buffer.dropped)


def _compressed(content: Fields) -> dict[int, tuple[int, int, int]]:
    """(field, begin, end) by packet."""
    field_by_packet: dict[int, tuple[int, int, int]] = {}
    for kind in (_DEFLATE, _ZSTD):
        fields = content.of(kind, BYTES)
        columns = (fields.owner.tolist(), fields.start.tolist(), fields.stop.tolist())
        for packet, begin, end in zip(*columns, strict=True):
            field_by_packet[packet] = (kind, begin, end)
    return field_by_packet


def _decompressed(buffer: Buffer, kind: int, begin: int, end: int, room: int) -> bytes:
    """At most one byte more than there is room for, which tells that there was more."""
    # libzstd refuses windows of more than 128 MB by itself.
    stream: _Decompressor = zstd.ZstdDecompressor() if kind == _ZSTD else zlib.decompressobj()
    try:
        packets = stream.decompress(bytes(buffer.raw[begin:end]), room + 1)
    except (zlib.error, zstd.ZstdError):
        buffer.dropped[CORRUPT] += 1
        return b""
    if not stream.eof and len(packets) <= room:
        buffer.dropped[CORRUPT] += 1
    return packets


def _varint(value: int) -> bytes:
    written = bytearray()
    while value >= 0x80:
        written.append(value & 0x7F | 0x80)
        value >>= 7
    written.append(value)
    return bytes(written)
