"""`--counters FILE` and `--perfetto FILE`: one rank's trace, written again with more drawn into
it."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

from faultline.analysis.errors import SettingsError
from faultline.analysis.traces.per_rank.critical_path import critical_path
from faultline.analysis.traces.per_rank.critical_path_events import last_complete_step, step_window
from faultline.analysis.traces.perfetto.augmented import (
    Written,
    write_overlay,
    write_with_counters,
)
from faultline.analysis.traces.perfetto.findings import findings, late_arrivals
from faultline.analysis.traces.reading.kineto import read_trace
from faultline.trace_report.analysis_run import JobResult, RankResult
from faultline.trace_report.job_report import JobReport
from faultline.trace_report.page_parts import visible


def write_augmented(
    report: JobReport,
    rank: int | None,
    step: int | None,
    steps: str,
    counters: Path | None,
    perfetto: Path | None,
) -> None:
    """Write what is asked for of the one rank. Raises SettingsError where it is not clear which."""
    if counters is None and perfetto is None:
        return
    chosen = _chosen(report.result, rank, "--counters" if counters else "--perfetto")
    trace = replace(read_trace(chosen.path), step_name=steps)
    if counters is not None:
        _say(write_with_counters(chosen.path, counters, trace), counters)
    if perfetto is not None:
        # Without --step draw the step of the report's own critical path.
        window = last_complete_step(trace) if step is None else step_window(trace, step)
        if step is not None and window is None:
            raise SettingsError("--step", f"rank {chosen.summary.rank} has no step {step}")
        path = critical_path(trace, window)
        arrivals = late_arrivals(report.compared, chosen.summary.rank) if report.compared else []
        notes = findings(trace, chosen.summary, report.diagnoses, arrivals)
        written = write_overlay(
            chosen.path, perfetto, trace, path, only_critical=False, notes=notes
        )
        _say(written, perfetto)


def _chosen(result: JobResult, rank: int | None, option: str) -> RankResult:
    ranks = [r for r in result.ranks if rank in (None, r.summary.rank)]
    if not ranks:
        raise SettingsError(option, "there is no trace to write")
    if len(ranks) > 1:
        raise SettingsError(option, f"there are {len(ranks)} ranks: say which one with --rank")
    return ranks[0]


def _say(written: Written, file: Path) -> None:
    left = f", {written.left_out:,} left out" if written.left_out else ""
    name = visible(str(file), 300)
    sys.stderr.write(
        f"faultline: wrote {name}: {written.events:,} events{left}, {written.added:,} added\n"
    )
