"""Native histograms sent to a real Prometheus, in the protobuf of its remote write 1.0.

Only that call takes them without a program that is scraped: the text formats have none.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence

import httpx

VARINT, DOUBLE, BYTES = 0, 1, 2
BUCKET = -3
"""Of schema 0: above a sixteenth, up to an eighth."""


def send_histograms(
    url: str, series: Sequence[tuple[Mapping[str, str], Sequence[tuple[float, int]]]]
) -> None:
    """Labels, and (time in s, count so far) with every observation in `BUCKET`."""
    body = b"".join(_field(1, _series(labels, points)) for labels, points in series)
    headers = {
        "Content-Encoding": "snappy",
        "Content-Type": "application/x-protobuf",
        "X-Prometheus-Remote-Write-Version": "0.1.0",
    }
    answer = httpx.post(f"{url}/api/v1/write", content=_snappy(body), headers=headers)
    answer.raise_for_status()


def _series(labels: Mapping[str, str], points: Sequence[tuple[float, int]]) -> bytes:
    found = b""
    for name, value in sorted(labels.items()):
        found += _field(1, _field(1, name.encode()) + _field(2, value.encode()))
    for at, count in points:
        found += _field(4, _histogram(at, count))
    return found


def _histogram(at: float, count: int) -> bytes:
    span = _number(1, _zigzag(BUCKET)) + _number(2, 1)
    return b"".join(
        (
            _number(1, count),
            _tag(3, DOUBLE) + struct.pack("<d", 0.1 * count),
            _number(4, _zigzag(0)),
            _tag(5, DOUBLE) + struct.pack("<d", 1e-9),
            _number(6, 0),
            _field(11, span),
            _field(12, _varint(_zigzag(count))),
            _number(15, round(at * 1000)),
        )
    )


def _tag(number: int, kind: int) -> bytes:
    return _varint(number << 3 | kind)


def _field(number: int, value: bytes) -> bytes:
    return _tag(number, BYTES) + _varint(len(value)) + value


def _number(number: int, value: int) -> bytes:
    return _tag(number, VARINT) + _varint(value)


def _zigzag(value: int) -> int:
    return value << 1 if value >= 0 else (-value << 1) - 1


def _varint(value: int) -> bytes:
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*found, value])


def _snappy(body: bytes) -> bytes:
    """The block format with everything as one literal."""
    return _varint(len(body)) + b"\xfc" + struct.pack("<I", len(body) - 1) + body
