"""Runs the trace engine over the files of one job: each rank on its own (read, analyse, sum up),
then all together."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from faultline.analysis.errors import EvidenceError, FaultlineError, SettingsError
from faultline.analysis.traces.across_ranks.rank_summary import RankSummary, summarise, within_job
from faultline.analysis.traces.columns.device import launched_by
from faultline.analysis.traces.columns.events import TraceColumns
from faultline.analysis.traces.columns.row_table import Rows
from faultline.analysis.traces.columns.steps import steps_of
from faultline.analysis.traces.job.trace_readers import traces_in
from faultline.analysis.traces.reading.file_kinds import TRACES
from faultline.analysis.traces.reading.job_files import (
    JobFile,
    JobFiles,
    sort_job_files,
    without_doubles,
)
from faultline.trace_report.json_output import row_lines
from faultline.trace_report.progress import Say as Progress
from faultline.trace_report.registry import BESIDE, all_rows_of, cut
from faultline.trace_report.sources import Capture, Sources, by_number, newest_per_rank
from faultline.trace_report.workers import Say, Task, run_tasks

if TYPE_CHECKING:
    from faultline.trace_report.rank_charts import RankCharts

T = TypeVar("T")
R = TypeVar("R")
TIMELINE_POINTS = 400
_TRACE_NAME = re.compile(r"(trace|rank|worker)[^/]*\.json(\.gz)?$", re.IGNORECASE)


@dataclass(frozen=True)
class RankRequest:
    """What is asked of each rank."""

    analyses: tuple[str, ...]
    rank: int | None = None
    step: int | None = None
    charts: bool = False
    """Whether a page is to be drawn."""
    steps: str = ""
    """Name or pattern of the ranges that are steps; "" to find them."""
    uncut: bool = False
    """Whether all rows are wanted, and not only those that a document holds."""
    as_lines: bool = False
    """Whether all rows are wanted as lines of JSON."""
    table_folder: Path | None = None
    """Where all rows are to be written as tables, a folder for each rank."""
    returned_analyses: frozenset[str] | None = None
    """Analyses whose rows are handed on beside the lines; None for all."""


@dataclass(frozen=True)
class RankResult:
    """One rank, read and analysed: small enough to hand from process to process."""

    path: Path
    summary: RankSummary
    rows: Mapping[str, Rows]
    failed: Mapping[str, str]
    """Analyses that could not be made of this rank, and why."""
    charts: RankCharts | None = None
    lines: bytes = b""
    """All rows as lines of JSON, where they are wanted."""
    table_folder: Path | None = None
    """Where its tables are, a file for each analysis, where they are wanted."""


@dataclass(frozen=True)
class JobResult:
    """All ranks that could be read, by rank, and what could not be."""

    ranks: tuple[RankResult, ...]
    files: JobFiles
    names: Mapping[Path, str]
    """What people call each file."""
    unread: tuple[tuple[str, str], ...]
    """(file, why) of everything that was given and could not be read."""
    older: tuple[str, ...] = ()
    """Files of a rank of which a newer one was read."""
    timelines: Mapping[str, Rows] = field(default_factory=dict)
    """Raw memory timelines by file: bytes by category over time."""

    @property
    def summaries(self) -> list[RankSummary]:
        """The ranks' summaries, by rank."""
        return [r.summary for r in self.ranks]


def run_job(
    sources: Sources,
    request: RankRequest,
    *,
    jobs: int | None,
    say: Progress,
    write_lines: Callable[[bytes], None] | None = None,
) -> JobResult:
    """Read and analyse all files of a job. `say(doing, files done, files)` is called with how
    far it is; `write_lines` takes the rows of each rank as lines of JSON."""
    job_files, names, traces = trace_files(sources)
    tasks = rank_tasks(job_files, names, traces, request)
    results: list[RankResult] = []
    unread = list(sources.problems)
    done = 0
    for update in run_tasks(read_ranks, tasks, jobs):
        done += update.done
        say(f"{tasks[update.number].argument.name} {update.doing}", done, len(tasks))
        if isinstance(update.error, SettingsError):
            # Not a fault of this file: no other could be written either.
            raise update.error
        if update.error is not None:
            unread.append((tasks[update.number].argument.name, problem_of(update.error)))
        elif update.result is not None:
            for result in update.result:
                summary = within_job(result.summary, len(tasks))
                if write_lines is None:
                    written = result
                else:
                    write_lines(result.lines)
                    written = replace(result, lines=b"")
                results.append(replace(written, summary=summary))
    timelines = memory_timelines(job_files, names, unread)
    newest, older = newest_per_rank([_capture(result.summary) for result in results])
    ranks = tuple(_ranked(results[place], rank) for rank, place in newest.items())
    return JobResult(ranks, job_files, names, tuple(sorted(unread)), tuple(older), timelines)


def _capture(summary: RankSummary) -> Capture:
    return Capture(summary.file, summary.rank, summary.rank_source, summary.start_ns)


def _ranked(result: RankResult, rank: int) -> RankResult:
    return replace(result, summary=replace(result.summary, rank=rank))


def rank_tasks(
    job_files: JobFiles, names: Mapping[Path, str], traces: Sequence[JobFile], request: RankRequest
) -> list[Task[RankRun]]:
    """One task for each trace, with the execution trace of its rank where one is wanted."""
    executions = job_files.of("execution_trace") if request.analyses else ()
    tasks = []
    for number, file in enumerate(traces):
        beside = execution_beside(file, executions, len(traces))
        run = RankRun(file.path, names[file.path], number, request, beside)
        tasks.append(trace_task(file, run))
    return tasks


@dataclass(frozen=True)
class RankRun:
    """One file to read."""

    path: Path
    name: str
    order: int
    request: RankRequest
    execution: Path | None = None
    """The rank's Chakra execution trace, where there is one."""


def read_ranks(task: RankRun, say: Say) -> list[RankResult]:
    """Read and analyse the ranks of a file. Raises EvidenceError when it is no trace."""
    traces = traces_in(task.path, order=task.order, progress=_percent(task.path, say))
    steps = task.request.steps
    named = [replace(t, file=task.name, step_name=steps or t.step_name) for t in traces]
    return [_analysed(trace, task, say, place) for place, trace in enumerate(named)]


def _analysed(trace: TraceColumns, task: RankRun, say: Say, place: int) -> RankResult:
    say("summing up")
    summary = summarise(trace)
    request = task.request
    shown = trace if request.step is None else only_step(trace, request.step)
    failed: dict[str, str] = {}
    # Other ranks are only summed up: the comparison needs them all.
    if request.rank not in (None, trace.rank):
        return RankResult(task.path, summary, {}, failed)
    rows: dict[str, Rows] = {}
    for name in request.analyses:
        # These are made from other files, not from the trace.
        if name in BESIDE:
            continue
        say(name.replace("_", " "))
        if (analysis_rows := _guarded(partial(all_rows_of, name), name, shown, failed)) is not None:
            rows[name] = analysis_rows
    if task.execution is not None:
        correlated = _guarded(
            partial(correlated_rows, task.execution), "execution_trace", shown, failed
        )
        if correlated is not None:
            rows["execution_trace"] = correlated
    lines = _lines(rows, summary) if request.as_lines else b""
    # The rank's folder.
    table_folder: Path | None
    if task.request.table_folder is None:
        table_folder = None
    else:
        from faultline.trace_report.tables import write_rank

        # The rank's number may still change: name the folder by the file's place.
        folder = task.request.table_folder / f"{task.order}-{place}"
        write_rank(rows, folder)
        table_folder = folder
    say("charts")
    charts = _guarded(_charts, "charts", shown, failed) if request.charts else None
    returned_rows = _returned_rows(rows, request)
    return RankResult(task.path, summary, returned_rows, failed, charts, lines, table_folder)


def _lines(rows: Mapping[str, Rows], summary: RankSummary) -> bytes:
    # What follows from the order of files is certain only once all of them have been read.
    rank = summary.rank if summary.rank_source != "order" else None
    return row_lines(rows, summary.file, rank)


def _returned_rows(rows: Mapping[str, Rows], request: RankRequest) -> dict[str, Rows]:
    """The rows that are handed on."""
    rows_by_name = {}
    for name, row in rows.items():
        if request.returned_analyses is None or name in request.returned_analyses:
            rows_by_name[name] = row if request.uncut else cut(row)
    return rows_by_name


def _percent(path: Path, say: Say) -> Callable[[int], None]:
    """Says how much of the file has been read, in steps that people can follow."""
    whole = max(path.stat().st_size, 1)
    done = last_share = 0

    def advance(count: int) -> None:
        nonlocal done, last_share
        done += count
        if (share := 20 * done // whole) > last_share:
            last_share = share
            say(f"reading {5 * share} %")

    return advance


def _guarded(
    function: Callable[[TraceColumns], T], name: str, trace: TraceColumns, failed: dict[str, str]
) -> T | None:
    """One analysis; what it fails with is named in the report, and the others stand."""
    try:
        return function(trace)
    except Exception as error:  # noqa: BLE001
        failed[name] = f"{type(error).__name__}: {error}"[:200]
        return None


def correlated_rows(execution: Path, trace: TraceColumns) -> Rows:
    """The operators of a trace with the nodes of its execution trace. Raises EvidenceError."""
    from faultline.analysis.traces.per_rank.execution_trace import (
        correlation_rows,
        read_execution_trace,
    )

    return correlation_rows(trace, read_execution_trace(execution))


def execution_beside(file: JobFile, executions: Sequence[JobFile], traces: int) -> Path | None:
    """The execution trace of the same rank; the only one, where there is one of each."""
    if traces == 1 and len(executions) == 1:
        return executions[0].path
    return next((e.path for e in executions if e.rank is not None and e.rank == file.rank), None)


def memory_timelines(
    job_files: JobFiles, names: Mapping[Path, str], unread: list[tuple[str, str]]
) -> dict[str, Rows]:
    """Raw memory timelines by file; what cannot be read is added to `unread`."""
    timelines: dict[str, Rows] = {}
    for file in job_files.of("memory_timeline"):
        from faultline.analysis.traces.per_rank.memory_categories import (
            category_rows,
            read_memory_timeline,
        )

        try:
            timelines[names[file.path]] = category_rows(
                read_memory_timeline(file.path), TIMELINE_POINTS
            )
        except EvidenceError as error:
            unread.append((names[file.path], error.problem))
    return timelines


def _charts(trace: TraceColumns) -> RankCharts:
    from faultline.trace_report.rank_charts import rank_charts

    return rank_charts(trace)


def only_step(trace: TraceColumns, number: int) -> TraceColumns:
    """What began in the step, and what the device did for it: work on a stream belongs to the call
    that launched it."""
    steps = steps_of(trace).only({number})
    if not len(steps):
        return trace.select(np.zeros(len(trace), dtype=np.bool_))
    launch = launched_by(trace)
    # Work without a launch belongs to the step in which it starts.
    begin = np.where(launch >= 0, trace.ts[launch], trace.ts)
    return trace.select((begin >= steps.start[0]) & (begin < steps.end[0]))


def trace_files(sources: Sources) -> tuple[JobFiles, Mapping[Path, str], list[JobFile]]:
    """All files by what they are, what people call them, and the traces among them in order.

    Traces are what looks like one, and what the user or its name says is one: reading then says
    what it is.
    """
    # rank2 before rank10: ranks that files do not say follow from this order.
    ordered = sorted(sources.files, key=lambda f: by_number(f.name))
    names = {f.path: f.name for f in ordered}
    named = {f.path for f in ordered if f.named}
    job_files = sort_job_files([f.path for f in ordered])
    unsure = [
        f
        for f in job_files.of("empty", "other")
        if f.path in named or _TRACE_NAME.search(names[f.path])
    ]
    traces = sorted(
        without_doubles((*job_files.of(*TRACES), *unsure)),
        key=lambda f: by_number(names[f.path]),
    )
    return job_files, names, traces


def trace_task(file: JobFile, argument: R) -> Task[R]:
    """The task of reading one trace."""
    return Task(argument, file.path.name, file.size, file.path.name.lower().endswith(".gz"))


def problem_of(error: FaultlineError) -> str:
    """Why a file could not be read, without its name."""
    return error.problem if isinstance(error, EvidenceError) else str(error)
