"""The bytes of a trace file, unpacked block by block, with a cap against compression bombs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from isal import isal_zlib

from faultline.analysis.errors import EvidenceError

BLOCK_BYTES = 1 << 18
PACKED_BYTES = 1 << 15
"""How much is unpacked at a time: what a corrupt place takes with it."""
MAX_TRACE_BYTES = 4_000_000_000
"""Most unpacked bytes read of one trace; profilers' viewers give up at 1 GB (kineto #595, #760)."""
BOMB_BYTES, BOMB_RATIO = 64 << 20, 250
"""Gzip data that have given more than BOMB_BYTES and more than BOMB_RATIO times what they hold are
read no further. Traces pack to between 1/5 and 1/40; zeros to 1/1000."""
GZIP_MAGIC = b"\x1f\x8b"

UNPACKING_ERROR: type[Exception] = isal_zlib.error  # type: ignore[assignment]

Progress = Callable[[int], None]
"""Called with the number of bytes of the file that were read since the last call."""


def file_blocks(path: Path, progress: Progress | None = None) -> Iterator[memoryview]:
    """The file as it lies on disk; each block is overwritten by the next.

    Raises EvidenceError when the file cannot be opened.
    """
    buffer = memoryview(bytearray(BLOCK_BYTES))
    try:
        with path.open("rb", buffering=0) as file:
            while count := file.readinto(buffer):
                yield buffer[:count]
                if progress:
                    progress(count)
    except OSError as error:
        raise EvidenceError(
            path.name, f"cannot be read ({error.strerror or type(error).__name__})"
        ) from error


def unpacked_blocks(
    path: Path, dropped: Counter[str], max_bytes: int = MAX_TRACE_BYTES
) -> Iterator[bytes]:
    """As `unpacked`, of a file; the blocks may be kept."""
    yield from map(bytes, unpacked(path.name, file_blocks(path), dropped, max_bytes))


def unpacked(
    name: str,
    blocks: Iterable[bytes | memoryview],
    dropped: Counter[str],
    max_bytes: int = MAX_TRACE_BYTES,
) -> Iterator[bytes | memoryview]:
    """Blocks of at most BLOCK_BYTES, gunzipped where they are gzip whatever the name says; to be
    used one by one.

    A file that ends early, is corrupt further on or is larger than `max_bytes` gives what comes
    before; `dropped` says so. Raises EvidenceError when there is not one byte.
    """
    packed = (block for block in blocks if len(block))
    first = bytes(next(packed, b""))
    # gzip shows in two bytes, and a first block may hold one.
    if len(first) == 1:
        first += bytes(next(packed, b""))
    if not first:
        raise EvidenceError(name, "is empty")
    whole = _with_first(first, packed)
    if first.startswith(GZIP_MAGIC):
        whole = _joined(_gunzip(_pieces(whole), dropped))
    yield from _capped(whole, dropped, max_bytes)


def _with_first(first: bytes, rest: Iterator[bytes | memoryview]) -> Iterator[bytes | memoryview]:
    yield first
    yield from rest


def _pieces(blocks: Iterator[bytes | memoryview]) -> Iterator[bytes]:
    for block in blocks:
        for at in range(0, len(block), PACKED_BYTES):
            # Copy: the block's buffer is used again for the next one.
            yield bytes(block[at : at + PACKED_BYTES])


def _capped(
    blocks: Iterator[bytes | memoryview], dropped: Counter[str], max_bytes: int
) -> Iterator[bytes | memoryview]:
    left = max_bytes
    for block in blocks:
        if len(block) > left:
            dropped[f"rest of the file after {max_bytes} bytes"] += 1
            yield block[:left]
            return
        left -= len(block)
        yield block


def _joined(blocks: Iterator[bytes]) -> Iterator[bytes]:
    """Small blocks together: gzip may be made of millions of members of one byte."""
    batch: list[bytes] = []
    size = 0
    for block in blocks:
        batch.append(block)
        size += len(block)
        if size >= BLOCK_BYTES // 2:
            yield b"".join(batch)
            batch, size = [], 0
    if batch:
        yield b"".join(batch)


def _gunzip(blocks: Iterator[bytes], dropped: Counter[str]) -> Iterator[bytes]:
    packed = b""
    taken = out_bytes = 0
    while True:
        # A gzip file may hold several members, one after the other.
        inflate = isal_zlib.decompressobj(wbits=31)
        while not inflate.eof:
            packed = packed or next(blocks, b"")
            if not packed:
                dropped["rest of the file: gzip data end early"] += 1
                return
            if out_bytes > BOMB_BYTES and out_bytes > BOMB_RATIO * taken:
                dropped[
                    f"rest of the file: it unpacks to more than {BOMB_RATIO} times its size"
                ] += 1
                return
            before = len(packed)
            try:
                block = inflate.decompress(packed, BLOCK_BYTES)
            except UNPACKING_ERROR:
                dropped["rest of the file: gzip data are corrupt"] += 1
                return
            packed = inflate.unconsumed_tail
            taken += before - len(packed) - len(inflate.unused_data)
            out_bytes += len(block)
            if block:
                yield block
        packed = inflate.unused_data or next(blocks, b"")
        if len(packed) == 1:
            packed += next(blocks, b"")
        if not packed.startswith(GZIP_MAGIC):
            # Zeros are padding, not data.
            if packed.strip(b"\x00"):
                dropped["bytes after the gzip data"] += len(packed)
            return
