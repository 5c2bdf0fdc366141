"""Lines of a log: bounded in number, in length and in bytes; of a long log the beginning and the
end."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from faultline.analysis.traces.reading.file_kinds import first_block

MAX_HEAD_BYTES = 32 << 20
MAX_TAIL_BYTES = 32 << 20
"""What ended a job stands at the end, what began it at the beginning."""
MAX_LINE = 16_384
"""Bytes; the rest of a longer line is dropped."""


def bounded_lines(path: Path) -> Iterator[tuple[int, str]]:
    """(byte offset, line) of a text file, also gzip (its first block only); nothing where it cannot
    be opened."""
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            if file.read(2) == b"\x1f\x8b":
                data = first_block(path, MAX_HEAD_BYTES)
                at = 0
                for line in data.split(b"\n"):
                    yield at, line[:MAX_LINE].rstrip(b"\r").decode("utf-8", "replace")
                    at += len(line) + 1
                return
            file.seek(0)
            yield from _lines(file, 0, min(size, MAX_HEAD_BYTES))
            if size > MAX_HEAD_BYTES:
                start = max(MAX_HEAD_BYTES, size - MAX_TAIL_BYTES)
                file.seek(start)
                # The jump lands inside a line: drop what is left of it.
                file.readline(MAX_TAIL_BYTES)
                yield from _lines(file, file.tell(), size)
    except OSError:
        return


def _lines(file: BinaryIO, at: int, end: int) -> Iterator[tuple[int, str]]:
    while at < end:
        line = file.readline(MAX_LINE)
        if not line:
            return
        yield at, line.rstrip(b"\r\n").decode("utf-8", "replace")
        at += len(line)
        while not line.endswith(b"\n") and len(line) == MAX_LINE:
            line = file.readline(MAX_LINE)
            at += len(line)
