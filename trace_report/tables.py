"""`--tables DIR`: every analysis as a Parquet file, with all of its rows."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from analysis.errors import SettingsError
from trace_report.frames import frame_of
from trace_report.job_report import JobReport, rows_by_name
from trace_report.registry import ANALYSES, BESIDE, cut


def write_tables(report: JobReport, folder: Path) -> None:
    """Write `folder/NAME.parquet` for each analysis; those of single ranks have a column `rank`.

    The columns are those of the Python library's frames. Raises SettingsError where that is
    impossible.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, rows in rows_by_name(report, whole=True).items():
            by_rank = name in ANALYSES or (name in BESIDE and all("rank" in row for row in rows))
            frame = frame_of(name, rows, by_rank=by_rank)
            frame.write_parquet(folder / f"{name}.parquet")
    except OSError as error:
        why = error.strerror or type(error).__name__
        raise SettingsError(str(folder), f"cannot be written ({why})") from error


def without_long_tables(report: JobReport) -> JobReport:
    """The report with the rows that documents hold."""
    ranks = []
    for rank in report.result.ranks:
        shown = {name: cut(rows) for name, rows in rank.rows.items()}
        ranks.append(replace(rank, rows=shown))
    return replace(report, result=replace(report.result, ranks=tuple(ranks)))
