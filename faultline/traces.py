"""The trace engine as a library: profiler traces, dumps and logs of a training job."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from analysis.errors import EvidenceError, SettingsError
from analysis.traces.doctor.diagnosis import JobDiagnosis as Diagnosis
from trace_report.analysis_run import Wanted, run_job
from trace_report.job_report import JobReport, answer, report_of
from trace_report.registry import ANALYSES, chosen
from trace_report.sources import opened

__all__ = ["ANALYSES", "Diagnosis", "Job", "open"]


@dataclass(frozen=True)
class Job:
    """All ranks of one training job that could be read."""

    _report: JobReport
    _answer: dict[str, Any]

    @property
    def ranks(self) -> tuple[int, ...]:
        """The ranks whose traces were read."""
        return tuple(line.rank for line in self._report.lines)

    @property
    def verdict(self) -> str:
        """`something_wrong`, `nothing_certain` or `nothing_wrong`."""
        return self._report.verdict

    @property
    def diagnoses(self) -> tuple[Diagnosis, ...]:
        """What is wrong with the job, the most important first."""
        return self._report.diagnoses

    @property
    def unread(self) -> tuple[tuple[str, str], ...]:
        """(file, why) of everything that was given and could not be read."""
        return self._report.result.unread

    @property
    def tables(self) -> tuple[str, ...]:
        """The names that `table` takes: analyses of single ranks and across ranks."""
        return tuple(self._answer["analyses"])

    def table(self, name: str) -> pl.DataFrame:
        """The rows of one analysis. Those of single ranks have a column `rank`; units end the
        columns' names (`_us`, `_ns`, `_ms`, `_bytes`).

        Raises SettingsError when the job has no such table.
        """
        tables = self._answer["analyses"]
        if name not in tables:
            raise SettingsError("table", f"no table is called {name!r}; there are {list(tables)}")
        return pl.DataFrame(tables[name], infer_schema_length=None)

    def to_dict(self) -> dict[str, Any]:
        """The document that `faultline trace --json` prints."""
        return self._answer


def open(
    *paths: str | Path,
    analyses: Sequence[str] | None = None,
    processes: int | None = None,
    steps: str = "",
) -> Job:
    """Read and analyse the files of one job.

    `paths` are files, folders, patterns, archives or `s3://bucket/prefix`; `analyses` are names
    of `ANALYSES` (all of them if not given); `processes` read traces side by side (one per core
    if not given); `steps` names the ranges that are steps, where the profiler marked none, as
    "iter *". Raises EvidenceError when nothing could be read, SettingsError for an unknown
    analysis.
    """
    names = chosen(",".join(analyses) if analyses is not None else None)
    given = tuple(str(path) for path in paths)
    with opened(given) as sources:
        result = run_job(sources, Wanted(names, steps=steps), jobs=processes, say=_silent)
        report = report_of(result, all_ranks=analyses is None)
    if not (report.lines or report.diagnoses or result.timelines):
        file, why = result.unread[0] if result.unread else (" ".join(given), "holds no trace")
        raise EvidenceError(file, why)
    return Job(report, answer(report))


def _silent(doing: str, done: int, files: int) -> None:
    """Progress is for terminals."""
