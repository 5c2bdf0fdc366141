"""The records that stand for a case's traces while it is analysed; `trace_versions` says what they
are.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path, PurePosixPath

import msgspec

from faultline.analysis.errors import EvidenceError
from faultline.analysis.traces.across_ranks.rank_summary import from_json
from faultline.analysis.traces.job.rank_reading import RankReading
from faultline.analysis.traces.reading.file_kinds import FileKind, rank_in_name
from faultline.analysis.traces.reading.job_files import JobFile

# What was read of a case's traces is kept beside them in `summaries/`: one JSON record per trace,
# named by its path.
#
# A record stands for its trace only while the version of the file and the reader are the same; else
# the trace is read again. In a copy of a case, `summaries/versions.json` lists the versions of the
# traces that the copy was made from. A trace that it lists and that is not there was left out on
# purpose: its record alone stands for it.

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


MAX_RECORD_BYTES = 128_000_000
"""A summary takes up to half a megabyte, and an export of Nsight Systems has at most 256."""


class _Versions(msgspec.Struct):
    versions: dict[str, str]


@dataclass(frozen=True)
class TraceRecord:
    """What is known of one file."""

    file: JobFile
    reading: RankReading | None
    """None for a file that is no trace."""


@dataclass(frozen=True)
class TraceRecords:
    """The valid records of one case, each read when it is asked for."""

    case: Path
    """The case folder."""
    _read: dict[Path, TraceRecord | None] = field(default_factory=dict)

    @property
    def used(self) -> bool:
        """Whether a record stands for any trace."""
        return any(record is not None for record in self._read.values())

    @cached_property
    def left_out(self) -> tuple[Path, ...]:
        """Traces that this copy of the case does without."""
        paths = [self.case / TRACES / name for name in self._versions if _is_below(name)]
        return tuple(path for path in paths if not path.exists())

    def of(self, path: Path) -> TraceRecord | None:
        """The record that stands for the trace at `path`, or None."""
        if path not in self._read:
            self._read[path] = self._load_record(path)
        return self._read[path]

    def job_file(self, path: Path) -> JobFile | None:
        """What the file is, where that is known without looking at it."""
        record = self.of(path)
        if record is None and path in self.left_out:  # reading it will say that it is not there
            return JobFile(path, "profiler_trace", rank_in_name(path), 0)
        return record.file if record is not None else None

    def reading(self, path: Path) -> RankReading | None:
        """What was read of the trace, where that is known."""
        record = self.of(path)
        return record.reading if record is not None else None

    def _load_record(self, path: Path) -> TraceRecord | None:
        name = path.relative_to(self.case / TRACES).as_posix()
        place = record_name(name)
        if place not in self._names:
            return None
        try:
            # Check the size before reading: a record may come from anybody.
            if (self.case / place).stat().st_size > MAX_RECORD_BYTES:
                return None
            stored = record_of((self.case / place).read_bytes(), name)
            if stored is None or stored.version != (self._versions.get(name) or version_of(path)):
                return None
            summaries = tuple(from_json(bytes(summary)) for summary in stored.summaries)
        except (OSError, msgspec.MsgspecError, ValueError, OverflowError, RecursionError):
            # A record that breaks counts as none: the trace itself is read.
            return None
        reading = (
            RankReading(summaries, stored.problem, stored.passing) if stored.is_trace else None
        )
        return TraceRecord(JobFile(path, stored.kind, rank_in_name(path), stored.size), reading)

    @cached_property
    def _names(self) -> frozenset[str]:
        folder = self.case / SUMMARIES
        return (
            frozenset(f"{SUMMARIES}/{p.name}" for p in folder.iterdir())
            if folder.is_dir()
            else frozenset()
        )

    @cached_property
    def _versions(self) -> Mapping[str, str]:
        file = self.case / SUMMARIES / VERSIONS_FILE
        if not file.exists():
            return {}
        try:
            return msgspec.json.decode(file.read_bytes(), type=_Versions).versions
        except (OSError, msgspec.MsgspecError, ValueError) as error:
            raise EvidenceError(
                f"{SUMMARIES}/{VERSIONS_FILE}", f"cannot be read ({type(error).__name__})"
            ) from error


def _is_below(name: str) -> bool:
    # The names come from a file: refuse paths that leave the folder.
    parts = PurePosixPath(name).parts
    return bool(parts) and parts[0] != "/" and ".." not in parts
