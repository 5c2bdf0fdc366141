"""The records that stand for a case's traces while it is analysed; `trace_versions` says what they
are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path, PurePosixPath

import msgspec

from faultline.analysis.errors import EvidenceError
from faultline.analysis.traces.across_ranks.rank_summary import from_json
from faultline.analysis.traces.job.rank_reading import RankReading
from faultline.analysis.traces.job.trace_versions import (
    SUMMARIES,
    TRACES,
    VERSIONS_FILE,
    record_name,
    record_of,
    version_of,
)
from faultline.analysis.traces.reading.file_kinds import rank_in_name
from faultline.analysis.traces.reading.job_files import JobFile

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
