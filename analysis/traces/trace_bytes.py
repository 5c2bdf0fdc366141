"""The bytes of a trace file, unpacked block by block, with a cap against compression bombs."""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from analysis.errors import EvidenceError

BLOCK_BYTES = 1 << 20
MAX_TRACE_BYTES = 4_000_000_000
"""Most unpacked bytes read of one trace; profilers' viewers give up at 1 GB (kineto #595, #760)."""
GZIP_MAGIC = b"\x1f\x8b"


def unpacked_blocks(path: Path, dropped: Counter[str], max_bytes: int = MAX_TRACE_BYTES) -> Iterator[bytes]:
    """Blocks of at most BLOCK_BYTES, gunzipped where the file is gzip whatever its name says.

    A file that ends early, is corrupt further on or is larger than `max_bytes` gives what comes before; `dropped`
    says so. Raises EvidenceError when the file cannot be opened or is empty.
    """
    try:
        with path.open("rb") as file:
            magic = file.read(2)
            if not magic:
                raise EvidenceError(path.name, "is empty")
            file.seek(0)
            blocks = _gunzip(file, dropped) if magic == GZIP_MAGIC else iter(lambda: file.read(BLOCK_BYTES), b"")
            yield from _capped(blocks, dropped, max_bytes)
    except OSError as error:
        raise EvidenceError(path.name, f"cannot be read ({error.strerror or type(error).__name__})") from error


def _capped(blocks: Iterator[bytes], dropped: Counter[str], max_bytes: int) -> Iterator[bytes]:
    left = max_bytes
    for block in blocks:
        if len(block) > left:
            dropped[f"rest of the file after {max_bytes} bytes"] += 1
            yield block[:left]
            return
        left -= len(block)
        yield block


def _gunzip(file: BinaryIO, dropped: Counter[str]) -> Iterator[bytes]:
    packed = b""
    while True:
        inflate = zlib.decompressobj(wbits=31)
        while not inflate.eof:
            packed = packed or file.read(BLOCK_BYTES)
            if not packed:
                dropped["rest of the file: gzip data end early"] += 1
                return
            try:
                block = inflate.decompress(packed, BLOCK_BYTES)
            except zlib.error:
                dropped["rest of the file: gzip data are corrupt"] += 1
                return
            packed = inflate.unconsumed_tail
            if block:
                yield block
        packed = inflate.unused_data or file.read(BLOCK_BYTES)
        if not packed.startswith(GZIP_MAGIC):
            if packed.strip(b"\x00"):
                dropped["bytes after the gzip data"] += len(packed)
            return
