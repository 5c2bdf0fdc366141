"""The history of a run that wandb wrote to disk (`run-<id>.wandb`), without wandb.

Source: wandb's DataStore (a LevelDB log: blocks of 32 KiB, frames of checksum, length and type) and
wandb/proto/wandb_internal.proto; read of files that wandb 0.31 wrote. Nothing but the history is
decoded: configuration, host, user and arguments of the run are passed over.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

from faultline.analysis.traces.reading.job_files import JobFile

MAGIC = b":W&B\xe1\xbe"
HEADER_BYTES = 7
BLOCK_BYTES = 32_768
FRAME_HEADER = struct.Struct("<IHB")
FULL, FIRST, MIDDLE, LAST = 1, 2, 3, 4
MAX_FILE_BYTES = 2 << 30
MAX_RECORD_BYTES = 4 << 20
"""A longer record is passed over."""
MAX_ITEMS = 20_000
"""Values of one history record."""
MAX_VALUE = 64
"""Bytes of a value that is decoded: a number or a short word; texts and tables are passed over."""
MAX_KEY = 256
MAX_VARINT_BYTES = 10
HISTORY, ITEM, STEP, STEP_NUMBER = 2, 1, 2, 1
KEY, NESTED_KEY, INTEGER, NUMBER, TEXT, VALUE_JSON = 1, 2, 5, 6, 7, 16
"""Field numbers of Record, HistoryRecord, HistoryStep and HistoryItem. Newer files may hold a typed
value (integer, number, text) instead of JSON."""
VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5


class NotProtobuf(Exception):
    """Bytes that are no message."""


def is_wandb_run(head: bytes) -> bool:
    """Whether a file with these first bytes is a run of wandb's."""
    return head.startswith(MAGIC)


def single_run(files: Iterable[JobFile]) -> list[JobFile]:
    """The files without those of other runs of wandb's.

    A run does not say its rank. Several runs, distinguished by neither rank nor name, would
    overwrite each other's steps, so the largest stands for all; resumed parts of one run belong
    together.
    """
    remaining_files = list(files)
    unknown = [f for f in remaining_files if f.kind == "wandb_run" and f.rank is None]
    sizes: dict[str, int] = {}
    for file in unknown:
        sizes[file.path.name] = sizes.get(file.path.name, 0) + file.size
    if len(sizes) < 2:
        return remaining_files
    # Of equal sizes the name decides, in every run alike.
    largest = max(sizes, key=lambda name: (sizes[name], name))
    left_out = {f.path for f in unknown if f.path.name != largest}
    return [f for f in remaining_files if f.path not in left_out]


def history_rows(path: Path) -> Iterator[dict[str, Any]]:
    """One dict per call of `run.log`: key (nested ones joined by ".") -> number or short text.

    Never raises for what the file holds: a damaged block is passed over, a file that is cut off
    ends early.
    """
    try:
        with path.open("rb") as file:
            if not is_wandb_run(file.read(HEADER_BYTES)):
                return
            for record in _records(file):
                row = _row(record)
                if row:
                    yield row
    except OSError:
        return


def _records(file: BinaryIO) -> Iterator[bytes]:
    """The log's records, put together from their frames."""
    parts: list[bytes] | None = None
    size = 0
    for kind, data in _frames(file):
        if kind in (FULL, FIRST):
            parts, size = [], 0
        if parts is None:
            # The record's beginning was damaged, or it is too long: skip the rest.
            continue
        parts.append(data)
        size += len(data)
        if size > MAX_RECORD_BYTES:
            parts = None
        elif kind in (FULL, LAST):
            yield b"".join(parts)
            parts = None


def _frames(file: BinaryIO) -> Iterator[tuple[int, bytes]]:
    """(type, data) of every frame; what follows a damaged one is passed over up to the next
    block."""
    read = HEADER_BYTES
    # Blocks count from the start of the file, header included.
    block = file.read(BLOCK_BYTES - HEADER_BYTES)
    while block and read < MAX_FILE_BYTES:
        at = 0
        while at + FRAME_HEADER.size <= len(block):
            _, length, kind = FRAME_HEADER.unpack_from(block, at)
            at += FRAME_HEADER.size
            if not FULL <= kind <= LAST or length > len(block) - at:
                break
            yield kind, block[at : at + length]
            at += length
        read += len(block)
        block = file.read(BLOCK_BYTES)


def _row(record: bytes) -> dict[str, Any]:
    """The values of a history record; {} for any other record, and for one that is no message."""
    row: dict[str, Any] = {}
    try:
        for number, message in _fields(record):
            if number == HISTORY and isinstance(message, bytes):
                _history(message, row)
    except NotProtobuf:
        return {}
    return row


def _history(message: bytes, row: dict[str, Any]) -> None:
    for count, (number, value) in enumerate(_fields(message)):
        if count >= MAX_ITEMS or not isinstance(value, bytes):
            return
        if number == ITEM:
            key, content = _item(value)
            if key and content is not None:
                row[key] = content
        elif number == STEP:
            # An item named "_step" outranks the record's field.
            row.setdefault("_step", next((n for f, n in _fields(value) if f == STEP_NUMBER), 0))


def _item(message: bytes) -> tuple[str, Any]:
    """(key, value); the value is None where it is no number or short text."""
    names: list[str] = []
    value: Any = None
    for number, raw in _fields(message):
        if number in (KEY, NESTED_KEY) and isinstance(raw, bytes) and raw:
            names.append(raw[:MAX_KEY].decode("utf-8", "replace"))
        elif number in (VALUE_JSON, TEXT) and isinstance(raw, bytes) and len(raw) <= MAX_VALUE:
            value = _json(raw) if number == VALUE_JSON else raw.decode("utf-8", "replace")
        elif number == INTEGER and isinstance(raw, int):
            # Zigzag encoding: the lowest bit is the sign.
            value = (raw >> 1) ^ -(raw & 1)
        elif number == NUMBER and isinstance(raw, float):
            value = raw
    return ".".join(names[:8]), value


def _json(raw: bytes) -> Any:
    """A number (bare NaN and Infinity too), boolean or text."""
    try:
        value = json.loads(raw)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, str | int | float) else None


def _fields(message: bytes) -> Iterator[tuple[int, int | float | bytes]]:
    """(field number, value) of a protobuf message: integers of varints, floats of 8 bytes, bytes of
    all else."""
    at = 0
    while at < len(message):
        tag, at = _varint(message, at)
        number, kind = tag >> 3, tag & 7
        if kind == VARINT:
            value, at = _varint(message, at)
            yield number, value
            continue
        if kind == BYTES:
            length, at = _varint(message, at)
        elif kind in (FIXED64, FIXED32):
            length = 8 if kind == FIXED64 else 4
        else:
            raise NotProtobuf(f"wire type {kind}")
        if length > len(message) - at:
            raise NotProtobuf("a field longer than its message")
        raw = message[at : at + length]
        at += length
        yield number, struct.unpack("<d", raw)[0] if kind == FIXED64 else raw


def _varint(message: bytes, at: int) -> tuple[int, int]:
    value = 0
    for place in range(MAX_VARINT_BYTES):
        if at >= len(message):
            raise NotProtobuf("a number without end")
        byte = message[at]
        at += 1
        value |= (byte & 0x7F) << (7 * place)
        if byte < 0x80:
            return value, at
    raise NotProtobuf("a number of more than 10 bytes")
