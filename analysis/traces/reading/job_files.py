"""The files that a training job left, sorted by what they are."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from faultline.analysis.traces.reading.file_kinds import (
    TRACES,
    FileKind,
    first_block,
    kind_of,
    rank_in_name,
)

MAX_FILES = 20_000
"""Files looked at: a job of thousands of ranks leaves a handful per rank."""
MAX_DEPTH = 8
"""Folders below a folder that was named."""
TRACE_NAMES = (".json", ".json.gz")
XPLANE, CHROME = ".xplane.pb", ".trace.json.gz"


@dataclass(frozen=True)
class JobFile:
    """One file."""

    path: Path
    kind: FileKind
    rank: int | None
    """As its name says; None where the name says nothing."""
    size: int
    """Bytes as stored."""


@dataclass(frozen=True)
class JobFiles:
    """The files of one job, by path."""

    files: tuple[JobFile, ...] = ()
    left_out: dict[str, int] = field(default_factory=dict)
    """Why files were not looked at, and how many."""

    def of(self, *kinds: FileKind) -> tuple[JobFile, ...]:
        """The files of these kinds, by path."""
        return tuple(f for f in self.files if f.kind in kinds)

    @property
    def ranks(self) -> frozenset[int]:
        """Every rank that a file's name gives."""
        return frozenset(f.rank for f in self.files if f.rank is not None)


def is_trace(file: JobFile) -> bool:
    """Traces of any format, and what is named like one: reading it says what it is."""
    if file.kind in ("other", "empty"):
        return file.path.name.lower().endswith(TRACE_NAMES)
    return file.kind in TRACES


def traces_of(files: JobFiles) -> list[JobFile]:
    """The traces among the files, by path."""
    return sorted(without_doubles(filter(is_trace, files.files)), key=lambda f: f.path)


def without_doubles(traces: Iterable[JobFile]) -> list[JobFile]:
    """JAX writes each profile twice: the Chrome JSON is left out where the XPlane file is beside
    it, which holds more and is not cut at a million events."""
    job_files = list(traces)
    profiles = {str(f.path).removesuffix(XPLANE) for f in job_files if f.kind == "xplane"}
    return [f for f in job_files if str(f.path).removesuffix(CHROME) not in profiles]


def sort_job_files(
    paths: Iterable[Path], lookup: Callable[[Path], JobFile | None] | None = None
) -> JobFiles:
    """Look at files, and at everything below folders, in the order of their names. `lookup` says
    what a file is that was read before. It does not have to exist.

    Links are followed to files but not to folders; what is neither file nor folder (pipes, devices)
    is left out. Bounded by MAX_FILES and MAX_DEPTH; `left_out` says what that cost.
    """
    job_files: list[JobFile] = []
    left_out: dict[str, int] = {}
    for path, problem in _walk(paths):
        if len(job_files) >= MAX_FILES:
            left_out[f"beyond the first {MAX_FILES} files"] = 1
            break
        outcome = ((lookup and lookup(path)) or _look(path)) if problem is None else problem
        if isinstance(outcome, str):
            left_out[outcome] = left_out.get(outcome, 0) + 1
        else:
            job_files.append(outcome)
    return JobFiles(tuple(job_files), left_out)


def _look(path: Path) -> JobFile | str:
    try:
        if not path.is_file():
            return "no regular file"
        size = path.stat().st_size
        # The content of a label is never read.
        named_label = path.name.lower().startswith("label.")
        return JobFile(
            path, kind_of(path, b"" if named_label else first_block(path)), rank_in_name(path), size
        )
    except OSError:
        return "cannot be opened"


def _walk(paths: Iterable[Path]) -> Iterator[tuple[Path, str | None]]:
    observed_paths: set[Path] = set()
    for path in paths:
        below = _below(path, 0) if path.is_dir() else iter([(path, None)])
        for file, problem in below:
            # A file may be given twice: by its name and by its folder.
            if file not in observed_paths:
                observed_paths.add(file)
                yield file, problem


def _below(folder: Path, depth: int) -> Iterator[tuple[Path, str | None]]:
    try:
        with os.scandir(folder) as entries:
            names = sorted(entries, key=lambda e: _by_number(e.name))
    except OSError:
        yield folder, "folder cannot be opened"
        return
    for entry in names:
        path = Path(entry.path)
        # A link to a folder may lead in a circle.
        if not entry.is_dir(follow_symlinks=False):
            yield path, "link to a folder" if entry.is_dir() else None
        elif depth >= MAX_DEPTH:
            yield path, f"deeper than {MAX_DEPTH} folders"
        else:
            yield from _below(path, depth + 1)


def _by_number(name: str) -> tuple[str, int, str]:
    """rank_2 before rank_10."""
    # Bound the digits: converting a very long number is slow.
    digits = "".join(c for c in name if c.isdecimal() and c.isascii())[:18]
    return "".join(c for c in name if not c.isdecimal()), int(digits or 0), name
