"""One training job: its ranks, its analyses, its events, and SQL over all of them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import polars as pl

from faultline.analysis.errors import SettingsError
from faultline.analysis.traces.columns.events import TraceColumns
from faultline.analysis.traces.doctor.diagnosis import JobDiagnosis as Diagnosis
from faultline.analysis.traces.per_rank.critical_path import critical_path
from faultline.analysis.traces.per_rank.critical_path_events import last_complete_step, step_window
from faultline.analysis.traces.perfetto.augmented import Written, write_overlay, write_with_counters
from faultline.trace_report.job_report import answer
from faultline.trace_report.registry import ACROSS_RANKS, ANALYSES, BESIDE
from faultline.traces.cost_analyses import CostAnalyses
from faultline.traces.device_analyses import DeviceAnalyses
from faultline.traces.display import job_html
from faultline.traces.event_frames import argument_columns, events_frame
from faultline.traces.host_analyses import HostAnalyses
from faultline.traces.job_analyses import AcrossRanks
from faultline.traces.ranks import JobRanks

if TYPE_CHECKING:
    from faultline.traces.plots import Plots

EVENT_TABLES = {
    "events": "events",
    "steps": "steps",
    "device_work": "device_work",
    "annotated_kernels": "annotated_kernels",
    "launch_queue_series": "launch_queue_series",
    "bandwidth_series": "bandwidth_series",
    "memory_timeline": "memory_timeline",
    "diagnoses": "diagnose",
    "overlap": "overlap",
}
"""Tables of SQL that are no analyses of the registry, and the methods that make them."""
_WORD = re.compile(r"\w+")


class Job(DeviceAnalyses, HostAnalyses, CostAnalyses, AcrossRanks):
    """All ranks of one training job that could be read.

    Every analysis is a method that gives a Polars frame. It is made when it is first asked for, of
    all ranks, and kept. Times end in `_ns` (whole nanoseconds, since the epoch
    where they are moments) or `_us`.
    """

    def __init__(self, ranks: JobRanks, analyses: tuple[str, ...] | None = None) -> None:
        self._ranks = ranks
        self._analyses = analyses

    @property
    def ranks(self) -> tuple[int, ...]:
        """The ranks whose traces were read."""
        return self._ranks.numbers

    @property
    def verdict(self) -> str:
        """`something_wrong`, `nothing_certain` or `nothing_wrong`."""
        return self._ranks.report.verdict

    @property
    def diagnoses(self) -> tuple[Diagnosis, ...]:
        """What is wrong with the job, the most important first."""
        return self._ranks.report.diagnoses

    @property
    def unread(self) -> tuple[tuple[str, str], ...]:
        """(file, why) of everything that was given and could not be read."""
        return self._ranks.result.unread

    @property
    def failed(self) -> tuple[tuple[int, str, str], ...]:
        """(rank, analysis, why) of what could not be made, of all that was asked for until now."""
        return tuple(self._ranks.failed())

    @property
    def tables(self) -> tuple[str, ...]:
        """The names that `table` takes: analyses of single ranks and across ranks."""
        if self._analyses is not None:
            return self._analyses
        files = self._ranks.files
        beside = {"execution_trace": "execution_trace", "memory_by_category": "memory_timeline"}
        there = [name for name in BESIDE if files.of(beside[name])]  # type: ignore[arg-type]
        return tuple(sorted((*ANALYSES, *ACROSS_RANKS, *there)))

    def table(self, name: str) -> pl.DataFrame:
        """An analysis by its name, as the method of that name gives it.

        Raises SettingsError when the job has no such table.
        """
        if name not in self.tables:
            raise SettingsError(
                "table", f"no table is called {name!r}; there are {list(self.tables)}"
            )
        return self._ranks.frame(name)

    def make(self, *names: str) -> Self:
        """Make these analyses of single ranks now: of a job that is too large to be kept all in
        one pass over its files. Raises SettingsError for an unknown name."""
        for name in names:
            if name not in ANALYSES:
                there = ", ".join(ANALYSES)
                raise SettingsError("make", f"no analysis is called {name!r}; there are {there}")
        self._ranks.make(names)
        return self

    def events(self, rank: int | None = None, *, arguments: bool = False) -> pl.DataFrame:
        """The events themselves, in the order of the file: intervals, without metadata, flows and
        counters.

        Columns: rank, index (position in the file's list of events), name, category, kind
        (computation, communication or memory, of work on a stream), start_ns, start_us (since the
        job's first event), duration_us, pid, tid, step, stream, correlation, external_id,
        python_id, python_parent_id. With `arguments` also those that are kept of events, under the
        names that the trace gives them.

        Raises SettingsError for all ranks of a job that is too large to be kept.
        """
        if rank is None and not self._ranks.in_memory:
            raise SettingsError("rank", "the job is too large for all its events: give a rank")
        begin = self._ranks.begin_ns

        def made(trace: TraceColumns) -> pl.DataFrame:
            frame = events_frame(trace, begin)
            return frame.hstack(argument_columns(trace)) if arguments else frame

        return self._ranks.of_each(made, rank)

    def sql(self, query: str) -> pl.DataFrame:
        """A query in Polars' SQL over `events`, `steps`, `device_work`, `diagnoses` and all
        analyses by name. Only the tables that the query names are made.

            job.sql("select name, sum(duration_us) as us from events group by name")
        """
        frames = {}
        # A word that merely matches a table's name costs only the time to make that table.
        for word in dict.fromkeys(_WORD.findall(query)):
            if word in EVENT_TABLES:
                frames[word] = getattr(self, EVENT_TABLES[word])()
            elif word in ANALYSES or word in ACROSS_RANKS or word in BESIDE:
                frames[word] = self._ranks.frame(word)
        with pl.SQLContext(frames) as context:
            return context.execute(query, eager=True)

    @property
    def plot(self) -> Plots:
        """Charts of the analyses. They need `pip install faultline-bot[notebook]`."""
        # An import at the top would require the extra of everybody.
        from faultline.traces.plots import Plots

        return Plots(self)

    def write_counters(self, file: str | Path, *, rank: int | None = None) -> Written:
        """Write one rank's trace again, with tracks for launch queues, bandwidth of copies, memory
        and whether the device is busy, for Perfetto. Raises SettingsError where the rank is not
        clear.

        Source: HTA's `generate_trace_with_counters`.
        """
        number, trace = self._single_rank(rank)
        return write_with_counters(self._ranks.path_of(number), Path(file), trace)

    def write_overlay(
        self, file: str | Path, *, rank: int | None = None, step: int | None = None
    ) -> Written:
        """Write one rank's trace again, with the critical path of a step drawn into it (of the
        last complete one if none is given). Raises SettingsError where the rank is not clear, or
        has no such step.

        Source: HTA's `overlay_critical_path_analysis`.
        """
        number, trace = self._single_rank(rank)
        # The end of the recording may cut the last step off.
        window = last_complete_step(trace) if step is None else step_window(trace, step)
        if step is not None and window is None:
            raise SettingsError("step", f"rank {number} has no step {step}")
        path = critical_path(trace, window)
        return write_overlay(self._ranks.path_of(number), Path(file), trace, path)

    def to_dict(self) -> dict[str, Any]:
        """The document that `faultline trace --json` prints."""
        names = tuple(ANALYSES) if self._analyses is None else self._analyses
        return answer(self._ranks.with_rows(names, all_ranks=self._analyses is None))

    def close(self) -> None:
        """Remove what was unpacked or downloaded for this job. It goes with the job, too."""
        self._ranks.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<faultline.traces.Job of {self._ranks.trace_count:,} traces>"

    def _repr_html_(self) -> str:
        return job_html(self._ranks)

    def _single_rank(self, rank: int | None) -> tuple[int, TraceColumns]:
        # Only with a single rank is it clear which trace is meant.
        if rank is None and len(self.ranks) != 1:
            raise SettingsError("rank", f"there are {len(self.ranks)} ranks: say which one")
        return next(self._ranks.traces(rank))
