"""The ranks of one job, read when something is asked of them and analysed once.

The columns of a job that fits into memory are kept. A larger job is read again for each question,
in separate processes, and only the answers are kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from weakref import finalize

import polars as pl

from faultline.analysis.errors import EvidenceError, SettingsError
from faultline.analysis.traces.across_ranks.rank_summary import summarise
from faultline.analysis.traces.columns.events import TraceColumns
from faultline.analysis.traces.columns.row_table import Rows
from faultline.analysis.traces.job.trace_readers import traces_in
from faultline.trace_report.analysis_run import (
    JobResult,
    RankRequest,
    RankResult,
    RankRun,
    correlated_rows,
    memory_timelines,
    problem_of,
    rank_tasks,
    run_job,
    trace_files,
)
from faultline.trace_report.job_report import JobReport, report_of
from faultline.trace_report.registry import (
    ACROSS_RANKS,
    ANALYSES,
    BESIDE,
    all_rows_of,
    cut,
    job_analyses,
)
from faultline.trace_report.sources import Capture, newest_per_rank, opened
from faultline.trace_report.tables import frame_of
from faultline.trace_report.workers import Say, free_memory, run_in_threads, unpacked_bytes

KEEP_BYTES = 4_000_000_000
"""Traces that are unpacked no longer than this in all are kept. Their columns take a third of it at
most (our choice)."""
Made = Callable[[TraceColumns], pl.DataFrame]


@dataclass(frozen=True)
class RankInMemory:
    """A rank whose columns stay in memory."""

    trace: TraceColumns
    run: RankRun


class JobRanks:
    """All files of a job. Nothing is parsed before it is needed."""

    def __init__(
        self, paths: Sequence[str], steps: str, processes: int | None, keep_bytes: int
    ) -> None:
        self._steps, self._processes = steps, processes
        self._open = ExitStack()
        # Without this the folder of unpacked files would warn when a job goes away unclosed.
        finalize(self, self._open.close)
        self._sources = self._open.enter_context(opened(paths))
        self.files, self.names, self._traces = trace_files(self._sources)
        self._locations = " ".join(paths)
        tasks = rank_tasks(
            self.files, self.names, self._traces, RankRequest(("execution_trace",), steps=steps)
        )
        self.in_memory = unpacked_bytes(tasks) <= min(keep_bytes, free_memory())
        self._tasks = tasks
        self._rows: dict[str, dict[int, Rows]] = {}
        self._failed: dict[int, dict[str, str]] = {}
        self._frames: dict[str, pl.DataFrame] = {}
        # Dumps and logs are small, and only reading them says whether they tell anything.
        if not self._traces and not (self.report.diagnoses or self.timelines):
            self._refuse(self._sources.problems)

    def close(self) -> None:
        """Remove what was unpacked or downloaded."""
        self._open.close()

    @cached_property
    def ranks_in_memory(self) -> Mapping[int, RankInMemory]:
        """The columns of every rank, by rank. Raises SettingsError where the job is too large."""
        if not self.in_memory:
            raise SettingsError("traces", "are too large to keep: give a rank")
        ranks: list[RankInMemory] = []
        for update in run_in_threads(_read, self._tasks, self._processes):
            if update.error is not None:
                name = self._tasks[update.number].argument.name
                self._problems.append((name, problem_of(update.error)))
            ranks += update.result or ()
        if self._traces and not ranks:
            self._refuse(self._problems)
        captures = [_capture(rank.trace) for rank in ranks]
        newest, self._older = newest_per_rank(captures)
        return {
            rank: replace(
                ranks[place], trace=replace(ranks[place].trace, rank=rank, step_name=self._steps)
            )
            for rank, place in newest.items()
        }

    def _refuse(self, problems: Sequence[tuple[str, str]]) -> None:
        raise EvidenceError(*(problems[0] if problems else (self._locations, "holds no trace")))

    @cached_property
    def _problems(self) -> list[tuple[str, str]]:
        return list(self._sources.problems)

    @cached_property
    def timelines(self) -> Mapping[str, Rows]:
        """Raw memory timelines by file."""
        return memory_timelines(self.files, self.names, self._problems)

    @property
    def numbers(self) -> tuple[int, ...]:
        """The ranks that could be read."""
        if self.in_memory:
            return tuple(self.ranks_in_memory)
        return tuple(result.summary.rank for result in self.result.ranks)

    @cached_property
    def result(self) -> JobResult:
        """The job, summed up rank by rank, without rows."""
        if not self.in_memory:
            return self._passed_through(())
        timelines = self.timelines
        ranks = []
        for rank in self.ranks_in_memory.values():
            ranks.append(RankResult(rank.run.path, summarise(rank.trace), {}, {}))
        unread = tuple(sorted(self._problems))
        return JobResult(
            tuple(ranks), self.files, self.names, unread, tuple(self._older), timelines
        )

    @cached_property
    def report(self) -> JobReport:
        """The job, compared and diagnosed."""
        return report_of(self.result)

    @property
    def is_diagnosed(self) -> bool:
        """Whether the report was made."""
        # A cached property stands among the instance's values once it was made.
        return "report" in vars(self)

    @property
    def trace_count(self) -> int:
        """Files that hold traces, or look like it."""
        return len(self._traces)

    @cached_property
    def begin_ns(self) -> int:
        """When the first event of any rank began."""
        if not self.in_memory:
            return min((s.start_ns for s in self.result.summaries), default=0)
        starts = [rank.trace.ts for rank in self.ranks_in_memory.values() if len(rank.trace)]
        return min((int(ts.min()) for ts in starts), default=0)

    def with_rows(self, names: Sequence[str], *, all_ranks: bool) -> JobReport:
        """The report with the rows of these analyses, as documents hold them."""
        by_name = {name: self.rows(name) for name in names}
        if self.files.of("execution_trace"):
            by_name["execution_trace"] = self.rows("execution_trace")
        ranks = []
        for result in self.result.ranks:
            rank = result.summary.rank
            rows = {
                name: cut(by_rank[rank]) for name, by_rank in by_name.items() if rank in by_rank
            }
            ranks.append(replace(result, rows=rows, failed=self._failed.get(rank, {})))
        job = replace(self.result, ranks=tuple(ranks))
        return replace(self.report, result=job, all_ranks=all_ranks)

    def rows(self, name: str) -> Mapping[int, Rows]:
        """All rows of an analysis of single ranks, by rank. A rank that it cannot be made for is
        left out."""
        if name not in self._rows:
            self.make((name,))
        return self._rows[name]

    def make(self, names: Sequence[str]) -> None:
        """Make these analyses of single ranks: of a large job all in one pass over its files."""
        missing = tuple(name for name in names if name not in self._rows)
        if not missing:
            return
        if self.in_memory:
            self._rows |= {name: self._made(name) for name in missing}
            return
        result = self._passed_through(missing)
        for name in missing:
            self._rows[name] = {
                rank.summary.rank: rank.rows[name] for rank in result.ranks if name in rank.rows
            }
        for rank in result.ranks:
            self._failed.setdefault(rank.summary.rank, {}).update(rank.failed)

    def frame(self, name: str) -> pl.DataFrame:
        """An analysis as a frame. Raises SettingsError for an unknown name."""
        if name not in self._frames:
            self._frames[name] = self._frame(name)
        return self._frames[name]

    def of_each(self, made: Made, rank: int | None = None) -> pl.DataFrame:
        """The frames that `made` gives for each rank, or for one, in one."""
        frames = []
        for number, trace in self.traces(rank):
            frames.append(made(trace).insert_column(0, pl.lit(number, pl.Int64).alias("rank")))
        return pl.concat(frames, how="diagonal") if frames else pl.DataFrame()

    def traces(self, rank: int | None = None) -> Iterator[tuple[int, TraceColumns]]:
        """The columns of each rank, or of one. Raises SettingsError for a rank that is not
        there."""
        if rank is not None and rank not in self.numbers:
            raise SettingsError("rank", f"there is no rank {rank}; there are {list(self.numbers)}")
        for number in self.numbers if rank is None else (rank,):
            yield (
                number,
                self.ranks_in_memory[number].trace if self.in_memory else self._read_again(number),
            )

    def path_of(self, rank: int) -> Path:
        """Where a rank's trace lies."""
        return next(r.path for r in self.result.ranks if r.summary.rank == rank)

    def _frame(self, name: str) -> pl.DataFrame:
        if name in ACROSS_RANKS:
            across: dict[str, Rows] = {}
            if self.report.compared is not None:
                across = job_analyses(self.report.compared)
            # One comparison gives them all, so keep the others for later questions.
            for other in ACROSS_RANKS:
                self._frames[other] = frame_of(other, across.get(other, ()))
            return self._frames[name]
        if name == "memory_by_category":
            lines = [{"file": f, **row} for f, rows in self.timelines.items() for row in rows]
            return frame_of(name, lines)
        if name not in ANALYSES and name not in BESIDE:
            there = ", ".join((*ANALYSES, *ACROSS_RANKS, *BESIDE))
            raise SettingsError("table", f"no table is called {name!r}; there are {there}")
        rank_rows = [{"rank": n, **row} for n, rows in self.rows(name).items() for row in rows]
        return frame_of(name, rank_rows, by_rank=True)

    def _made(self, name: str) -> dict[int, Rows]:
        made: dict[int, Rows] = {}
        for number, rank in self.ranks_in_memory.items():
            try:
                if name != "execution_trace":
                    made[number] = all_rows_of(name, rank.trace)
                elif rank.run.execution is not None:
                    made[number] = correlated_rows(rank.run.execution, rank.trace)
            # A failing analysis must not cost the others.
            except Exception as error:  # noqa: BLE001
                why = f"{type(error).__name__}: {error}"[:200]
                self._failed.setdefault(number, {})[name] = why
        return made

    def failed(self) -> Iterator[tuple[int, str, str]]:
        """(rank, analysis, why) of what could not be made, among what was asked for."""
        for rank, whys in sorted(self._failed.items()):
            for name, why in sorted(whys.items()):
                yield rank, name, why

    def _passed_through(self, names: tuple[str, ...]) -> JobResult:
        request = RankRequest(names, steps=self._steps, uncut=True)
        result = run_job(self._sources, request, jobs=self._processes, say=_silent)
        if not result.ranks:
            self._refuse(result.unread)
        return result

    def _read_again(self, rank: int) -> TraceColumns:
        result = next(r for r in self.result.ranks if r.summary.rank == rank)
        traces = traces_in(result.path, order=rank)
        # A file may hold several ranks; one that names none holds a single one.
        same = [t for t in traces if t.rank == rank] or traces
        return replace(
            same[0], rank=rank, file=result.summary.file, step_name=self._steps or same[0].step_name
        )


def _read(run: RankRun, _: Say) -> list[RankInMemory]:
    ranks = []
    for trace in traces_in(run.path, order=run.order):
        steps = run.request.steps or trace.step_name
        named = replace(trace, file=run.name, step_name=steps)
        ranks.append(RankInMemory(named, run))
    return ranks


def _capture(trace: TraceColumns) -> Capture:
    start = int(trace.ts.min()) if len(trace) else 0
    return Capture(trace.file, trace.rank, trace.rank_source, start)


def _silent(doing: str, done: int, files: int) -> None:
    """Progress is for terminals."""
