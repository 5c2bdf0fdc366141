"""What `faultline trace PATH...` is given: files, folders, patterns, archives and S3 prefixes
become a list of files.

Reports of Nsight Systems are exported where `nsys` is at hand, unless their export lies beside
them. Nothing is written outside a scratch folder, and nothing is written to S3. A path that cannot
be had is a problem with one line; the others go on.
"""

from __future__ import annotations

import glob
import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from analysis.errors import BudgetExceeded, EvidenceError
from trace_report.archives import Scratch, is_archive, unpacked
from trace_report.nsight_reports import exported, is_report, without_export

MAX_FILES = 20_000
MAX_SCRATCH_BYTES = 64 * 1024**3
KEEP_FREE_BYTES = 1024**3
"""Disk space that is left alone."""
MAX_DEPTH = 12


@dataclass(frozen=True)
class SourceFile:
    """One file: where it can be read now, and what people call it."""

    name: str
    path: Path
    named: bool = False
    """Whether the user named this very file."""


@dataclass(frozen=True)
class Sources:
    """All files, in the order of their names, and (what, why) for everything that could not be
    had."""

    files: tuple[SourceFile, ...]
    problems: tuple[tuple[str, str], ...]


@dataclass
class _Gathering:
    scratch: Scratch
    files: list[SourceFile] = field(default_factory=list)
    seen: set[Path] = field(default_factory=set)

    def add(self, path: Path, name: str, *, named: bool = False) -> None:
        """A file on disk; an archive gives its members."""
        real = path.resolve()
        if real in self.seen:
            return
        self.seen.add(real)
        if len(self.files) >= MAX_FILES:
            raise EvidenceError(name, f"is over the {MAX_FILES:,} files that are looked at")
        if not is_archive(path.name):
            self.files.append(SourceFile(name, path, named))
            return
        for member, copy in unpacked(path, self.scratch):
            self.files.append(SourceFile(f"{path.name}/{member}", copy))


@contextmanager
def opened(paths: Sequence[str]) -> Iterator[Sources]:
    """The files of all paths, for the time of the block: copies from archives and S3 are removed
    after it."""
    with tempfile.TemporaryDirectory(
        prefix="faultline-trace-", ignore_cleanup_errors=True
    ) as folder:
        room = max(0, shutil.disk_usage(folder).free - KEEP_FREE_BYTES)
        gathering = _Gathering(Scratch(Path(folder), min(room, MAX_SCRATCH_BYTES)))
        for path in paths:
            try:
                _gather(path, gathering)
            except (EvidenceError, BudgetExceeded) as error:
                why = error.problem if isinstance(error, EvidenceError) else str(error)
                gathering.scratch.problems.append((path, why))
        _export_reports(gathering)
        yield Sources(tuple(gathering.files), tuple(gathering.scratch.problems))


def _export_reports(gathering: _Gathering) -> None:
    """Put exports in the place of reports; one that cannot be exported is a problem, and is no file
    any more."""
    wanted = set(without_export(f.path for f in gathering.files))
    files, gathering.files = gathering.files, []
    scratch = gathering.scratch
    for file in files:
        if file.path not in wanted:
            gathering.files += [] if is_report(file.path) else [file]
            continue
        own = file.path.is_relative_to(scratch.folder)
        name = file.name if own else str(file.path)
        try:
            copy = exported(file.path, scratch.folder, name=name, most_bytes=scratch.bytes_left)
        except EvidenceError as error:
            scratch.problems.append((file.name, error.problem))
            continue
        scratch.bytes_left -= copy.stat().st_size
        gathering.files.append(replace(file, path=copy))


def _gather(given: str, gathering: _Gathering) -> None:
    if given.startswith("s3://"):
        _from_s3(given, gathering)
        return
    path = Path(given)
    try:
        if path.is_dir():
            found = [(p, p.relative_to(path).as_posix()) for p in _below(path)]
        elif path.exists():
            found = [(path, path.name)]
        else:
            found = [(Path(match), Path(match).name) for match in _matches(given)]
    except (OSError, ValueError) as error:
        raise EvidenceError(
            given, f"cannot be read ({getattr(error, 'strerror', None) or error})"
        ) from error
    if not found:
        raise EvidenceError(given, "holds no files" if path.is_dir() else "no such file")
    for file, name in found:
        gathering.add(file, name, named=file == path)


def _matches(pattern: str) -> list[str]:
    found: list[str] = []
    for match in sorted(glob.glob(pattern, recursive=True)):
        path = Path(match)
        found += (
            [str(p) for p in _below(path)] if path.is_dir() and "**" not in pattern else [match]
        )
    return [match for match in dict.fromkeys(found) if Path(match).is_file()]


def _below(folder: Path) -> list[Path]:
    """Files below a folder, sorted; hidden ones, links to folders and what lies very deep are left
    alone."""
    found: list[Path] = []
    for place, folders, files in os.walk(folder):
        depth = len(Path(place).relative_to(folder).parts)
        folders[:] = (
            sorted(f for f in folders if not f.startswith(".")) if depth < MAX_DEPTH else []
        )
        found += [Path(place, name) for name in files if not name.startswith(".")]
        if len(found) > 2 * MAX_FILES:
            break
    return sorted(p for p in found if p.is_file())


def _from_s3(location: str, gathering: _Gathering) -> None:
    from trace_report.s3_files import downloaded

    for name, copy in downloaded(location, gathering.scratch):
        gathering.add(copy, name)
