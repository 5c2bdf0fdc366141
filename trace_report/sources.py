"""What `faultline trace PATH...` is given: files, folders, patterns, archives and S3 prefixes
become a list of files.

Reports of Nsight Systems are exported where `nsys` is at hand, unless their export is next to
them. Nothing is written outside a scratch folder, and nothing is written to S3. A path that cannot
be read is a problem with one line; the others continue.
"""

from __future__ import annotations

import glob
import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from faultline.analysis.errors import BudgetExceeded, EvidenceError
from faultline.analysis.traces.columns.events import RankSource
from faultline.trace_report.archives import ScratchFolder, is_archive, unpacked
from faultline.trace_report.nsight_reports import exported, is_report, without_export

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
    read."""

    files: tuple[SourceFile, ...]
    problems: tuple[tuple[str, str], ...]


@dataclass
class _Gathering:
    scratch: ScratchFolder
    files: list[SourceFile] = field(default_factory=list)
    real_paths: set[Path] = field(default_factory=set)

    def add(self, path: Path, name: str, *, named: bool = False) -> None:
        """A file on disk; an archive gives its members."""
        real = path.resolve()
        if real in self.real_paths:
            return
        self.real_paths.add(real)
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
        gathering = _Gathering(ScratchFolder(Path(folder), min(room, MAX_SCRATCH_BYTES)))
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
    report_paths = set(without_export(file.path for file in gathering.files))
    files, gathering.files = gathering.files, []
    scratch = gathering.scratch
    for file in files:
        if file.path not in report_paths:
            # A report that is not wanted has its export beside it.
            if not is_report(file.path):
                gathering.files.append(file)
            continue
        is_copy = file.path.is_relative_to(scratch.folder)
        name = file.name if is_copy else str(file.path)
        try:
            copy = exported(file.path, scratch.folder, name=name, most_bytes=scratch.bytes_left)
        except EvidenceError as error:
            scratch.problems.append((file.name, error.problem))
            continue
        scratch.bytes_left -= copy.stat().st_size
        gathering.files.append(replace(file, path=copy))


def _gather(location: str, gathering: _Gathering) -> None:
    if location.startswith("s3://"):
        _from_s3(location, gathering)
        return
    path = Path(location)
    try:
        # The files of a folder, the file, or what the pattern finds; each with its name for people.
        if path.is_dir():
            files = [(file, file.relative_to(path).as_posix()) for file in _below(path)]
        elif path.exists():
            files = [(path, path.name)]
        else:
            files = [(file, file.name) for file in _matches(location)]
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise EvidenceError(location, f"cannot be read ({why})") from error
    if not files:
        raise EvidenceError(location, "holds no files" if path.is_dir() else "no such file")
    for file, name in files:
        gathering.add(file, name, named=file == path)


def _matches(pattern: str) -> list[Path]:
    paths: list[Path] = []
    for match in sorted(glob.glob(pattern, recursive=True)):
        path = Path(match)
        # "**" finds what lies below a folder by itself.
        if path.is_dir() and "**" not in pattern:
            paths += _below(path)
        else:
            paths.append(path)
    return [path for path in dict.fromkeys(paths) if path.is_file()]


def _below(folder: Path) -> list[Path]:
    """Files below a folder, sorted; hidden ones, links to folders and what lies very deep are left
    alone."""
    paths: list[Path] = []
    for place, folders, files in os.walk(folder):
        depth = len(Path(place).relative_to(folder).parts)
        # os.walk goes on into what is left in the list.
        if depth < MAX_DEPTH:
            folders[:] = sorted(_visible(folders))
        else:
            folders.clear()
        paths += [Path(place, name) for name in _visible(files)]
        if len(paths) > 2 * MAX_FILES:
            break
    return sorted(path for path in paths if path.is_file())


def _visible(names: Sequence[str]) -> list[str]:
    return [name for name in names if not name.startswith(".")]


def _from_s3(location: str, gathering: _Gathering) -> None:
    from faultline.trace_report.s3_files import downloaded

    for name, copy in downloaded(location, gathering.scratch):
        gathering.add(copy, name)


# Which traces of a job count: one per rank, the newest.

_DIGITS = re.compile(r"(\d+)")


@dataclass(frozen=True)
class Capture:
    """What one trace says of itself."""

    file: str
    rank: int
    source: RankSource
    start_ns: int


def newest_per_rank(captures: Sequence[Capture]) -> tuple[Mapping[int, int], list[str]]:
    """The place of each rank's newest trace among the captures, by rank, and the files of the
    others.

    Traces that do not know their rank get the lowest free ones, in the order of their files.
    """
    ranks = [capture.rank for capture in captures]
    unnamed = [place for place, capture in enumerate(captures) if capture.source == "order"]
    taken = {capture.rank for capture in captures if capture.source != "order"}
    free = (rank for rank in range(len(captures) + len(taken)) if rank not in taken)
    for place in sorted(unnamed, key=lambda p: (by_number(captures[p].file), captures[p].rank)):
        ranks[place] = next(free)
    newest: dict[int, int] = {}
    for place in sorted(range(len(captures)), key=lambda p: _age(captures[p])):
        newest[ranks[place]] = place
    remaining_newest = set(newest.values())
    older = sorted(c.file for place, c in enumerate(captures) if place not in remaining_newest)
    return dict(sorted(newest.items())), older


def _age(capture: Capture) -> tuple[int, str]:
    return capture.start_ns, capture.file


def by_number(name: str) -> tuple[tuple[str, int], ...]:
    """A key that sorts rank2 before rank10."""
    parts = _DIGITS.split(name)
    return tuple(
        (text, int(digits[:18] or 0))
        for text, digits in zip(parts[::2], [*parts[1::2], "0"], strict=True)
    )
