"""What was read of a case's traces is kept beside them in `summaries/`: one JSON record per trace,
named by its path.

A record stands for its trace only while the version of the file and the reader are the same; else
the trace is read again. In a copy of a case, `summaries/versions.json` lists the versions of the
traces that the copy was made from. A trace that it lists and that is not there was left out on
purpose: its record alone stands for it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

import msgspec

from faultline.analysis.traces.reading.file_kinds import FileKind

TRACES = "traces"
SUMMARIES = "summaries"
VERSIONS_FILE = "versions.json"


def _reader() -> str:
    """Names the code that reads: a record of other code is none. Made when this is imported, as the
    code itself is."""
    digest = hashlib.sha256()
    here = Path(__file__).parents[1]
    for path in sorted(here.rglob("*")):
        if path.suffix in (".py", ".c", ".h"):
            # The NUL keeps a name and its content apart, so that shifted bytes change the hash.
            digest.update(path.relative_to(here).as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]


READER = _reader()


class StoredRecord(msgspec.Struct, frozen=True):
    """One file below `traces/` that was looked at or read."""

    trace: str
    """Its path below `traces/`."""
    version: str
    """Of the file, as its store tells versions apart."""
    kind: FileKind
    size: int
    run: str
    """The investigation's run for which it was read."""
    is_trace: bool = True
    problem: str | None = None
    """Why it has no summaries."""
    passing: bool = False
    """Whether the problem is none of the file's: memory, time or a process ran out."""
    summaries: tuple[msgspec.Raw, ...] = ()
    """One per rank, as `rank_summary.to_json` writes them."""
    reader: str = READER


def record_name(trace: str) -> str:
    """Where the record of a trace lies in its case; the trace's own name may be too long for that,
    or odd."""
    return (
        f"{SUMMARIES}/"
        f"{hashlib.sha256(trace.encode('utf-8', 'surrogateescape')).hexdigest()[:32]}.json"
    )


def record_bytes(record: StoredRecord) -> bytes:
    """The record as JSON. Raises UnicodeEncodeError where a name in it is no text."""
    return msgspec.json.encode(record)


def record_of(text: bytes, trace: str) -> StoredRecord | None:
    """The record of this trace; None for another's, another reader's, and what is no record."""
    try:
        record = msgspec.json.decode(text, type=StoredRecord)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None
    return record if record.reader == READER and record.trace == trace else None


def version_of(path: Path) -> str:
    """A file's version on disk. Raises OSError."""
    stat = path.stat()
    return f"{stat.st_size}-{stat.st_mtime_ns}"


def versions_bytes(versions: Mapping[str, str]) -> bytes:
    """`versions.json` of a copy of a case: every trace of the case, by its path below `traces/`."""
    return json.dumps({"versions": dict(versions)}, sort_keys=True).encode("utf-8", "replace")
