"""Traces of a large case are read by all workers at once, each into a record beside it; the
analysis takes the records.

The step that analyses a case begins with this and waits: it puts every trace without a valid record
on the queue of traces, and continues when all have ended. A worker reads one trace in a separate
process, within its limits on time and memory.
"""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from msgspec import Raw

from faultline.analysis.errors import BudgetExceeded, EvidenceError
from faultline.analysis.traces.job.trace_versions import (
    SUMMARIES,
    TRACES,
    StoredRecord,
    record_bytes,
    record_name,
    record_of,
)
from faultline.analysis.traces.readable import readable
from faultline.analysis.traces.reading.file_kinds import FileKind
from faultline.analysis.traces.reading.job_files import JobFile, is_trace, sort_job_files
from faultline.analysis.wording.phrases import counted
from faultline.bot.investigation import trace_queue
from faultline.bot.runtime.process_pool import ProcessPool
from faultline.bot.runtime.threads import in_thread
from faultline.bot.settings import WorkerSettings
from faultline.bot.store.case_store import CaseStore, Stored
from faultline.connectors.shared.contract.base import Collected, Item, Missing
from faultline.trace_report.nsight_reports import (
    EXPORT_SECONDS,
    exported,
    is_report,
    without_export,
)

log = logging.getLogger("faultline.reading_traces")

Say = Callable[[str, str], Awaitable[None]]
"""Adds one line of progress: its key, and what it says."""

FAN_OUT_BYTES = 1_000_000_000
"""Unpacked bytes of traces from which several workers read them. Fewer are read by one process in
some 6 s (own: 0.55 s of CPU per 100 MB). Sharing them out would save little, because it costs 1 to
2 s."""
WORTH_A_TURN_BYTES = 1_000_000
"""Smaller files are read by the analysis itself in the time that the queue would need."""
BYTES_PER_PACKED_BYTE = 15
"""As `faultline.trace_report.workers`: traces pack to about a fifteenth."""
ATTEMPTS = 3
"""A trace whose reading left no valid record is put on the queue so often: its worker's disk may
have been full, or the worker of another version, as in a rolling upgrade."""
LONGEST_READING_S = 3600.0
"""An answer that names the ranks that were not read is better than one that comes later."""
POLL_S = 0.5
LINES = 10
"""Most lines of progress of one reading, whatever the number of ranks."""
STORE_READERS = 16
NICER = 5
"""Added to the worker's nice value: an investigation that waits for nothing goes first."""
MAX_NAME = 200
KILLED = "its process was killed twice while it was read, as happens where memory is short"


@dataclass(frozen=True)
class RankTask:
    """One local file to read, and what its record is to say of it."""

    path: Path
    trace: str
    stored: Stored
    run: str


class TraceReading:
    """Reads the traces of large cases: as the investigation that waits, and as the worker that
    reads."""

    def __init__(self, cases: CaseStore, settings: WorkerSettings) -> None:
        self.processes = settings.trace_processes or len(os.sched_getaffinity(0))
        self._cases = cases
        self._deadline_s = settings.trace_deadline_s
        self._pool = ProcessPool(
            deadline_s=self._deadline_s,
            workers=self.processes,
            memory_bytes=settings.trace_memory_mb * 1_000_000,
            niceness=NICER,
        )

    def close(self) -> None:
        """End the processes."""
        self._pool.close()

    async def read_all(
        self, case_id: str, say: Say, awaiting_retry: set[str] | None = None
    ) -> list[str]:
        """Have every trace of a large case read; gives the files that the analysis can do without.

        While it waits, its run is in `awaiting_retry`: nothing is lost when a worker that stops
        leaves it at once.
        """
        listed = await in_thread(self._cases.listed, case_id, TRACES)
        traces = {name: stored for name, stored in listed.items() if _worth_a_turn(name, stored)}
        if (
            len(traces) < 2
            or sum(_unpacked(name, stored) for name, stored in traces.items()) < FAN_OUT_BYTES
        ):
            return []
        run = trace_queue.this_run(case_id)
        ends = time.monotonic() + LONGEST_READING_S
        ready = await self._ready(case_id, traces, run)
        for attempt in range(ATTEMPTS):
            unread = [name for name in traces if name not in ready]
            if not unread:
                break
            await trace_queue.put(case_id, unread, run, attempt)
            with _among(awaiting_retry, run):
                await self._wait(run, attempt, _Progress(traces, len(unread), say), ends)
            ready = await self._ready(case_id, traces, run)
            if time.monotonic() > ends:
                ready |= await self._late_records(
                    case_id, {n: s for n, s in traces.items() if n not in ready}, run
                )
        return [f"{TRACES}/{name}" for name, record in ready.items() if record.is_trace]

    async def _wait(self, run: str, attempt: int, progress: _Progress, ends: float) -> None:
        """Until all have ended, or the time is over."""
        while left := await trace_queue.left(run, attempt):
            await progress.tell(len(left))
            if time.monotonic() > ends:
                # Nobody waits for them any more.
                await trace_queue.take_back(left)
                return
            await asyncio.sleep(POLL_S)
        await progress.tell(0)

    async def _ready(
        self, case_id: str, traces: Mapping[str, Stored], run: str
    ) -> dict[str, StoredRecord]:
        """The valid records. A failure that was none of the file's stands for the run that it
        happened in."""
        there = await in_thread(self._cases.names, case_id, SUMMARIES)
        stored_names, readers = set(there), asyncio.Semaphore(STORE_READERS)

        async def stored_record(name: str) -> StoredRecord | None:
            async with readers:
                text = await in_thread(self._cases.get, case_id, record_name(name))
            record = record_of(text, name) if text is not None else None
            # A record of another version of the file says nothing about this one.
            if record is None or record.version != traces[name].version:
                return None
            return None if record.passing and record.run != run else record

        names = [name for name in traces if record_name(name) in stored_names]
        records = zip(names, await asyncio.gather(*map(stored_record, names)), strict=True)
        return {name: record for name, record in records if record is not None}

    async def _late_records(
        self, case_id: str, traces: Mapping[str, Stored], run: str
    ) -> dict[str, StoredRecord]:
        """The analysis has no time to read them either."""
        late = f"was not read within {LONGEST_READING_S / 60:g} minutes"
        records = {n: _unread(n, s, run, "profiler_trace", late) for n, s in traces.items()}
        for name, record in records.items():
            await self._put(case_id, name, record_bytes(record))
        return records

    async def read(self, case_id: str, trace: str, run: str) -> str:
        """Read one trace into its record."""
        # The investigation may have gone on without this trace.
        if not await trace_queue.is_awaited(run):
            return "not wanted any more"
        with tempfile.TemporaryDirectory(prefix="faultline-trace-") as scratch:
            try:
                record = await self._record(case_id, trace, run, Path(scratch))
            except FileNotFoundError:
                return "gone"
        if record is None:
            return "cannot be opened"
        await self._put(case_id, trace, record)
        return "recorded"

    async def _record(self, case_id: str, trace: str, run: str, scratch: Path) -> bytes | None:
        name = f"{TRACES}/{trace}"
        # The head is enough to recognise a file that is no trace. A large one takes long to fetch.
        path, stored = await in_thread(self._cases.fetch_head, case_id, name, scratch)
        job_file = await in_thread(_job_file, path)
        if job_file is None:
            return None
        if not is_trace(job_file):
            return record_bytes(_no_trace(trace, stored, run, job_file.kind))
        path, stored = await in_thread(self._cases.fetch, case_id, name, scratch)
        try:
            return await self._pool.run(read_into_record, RankTask(path, trace, stored, run))
        except BudgetExceeded as error:
            why = (
                KILLED if error.what == "memory" else f"was not read within {self._deadline_s:g} s"
            )
            log.warning("%s of %s: %s", readable(trace, MAX_NAME), case_id, why)
            # Record the failure, or the trace would be queued again in this run.
            return record_bytes(_unread(trace, stored, run, job_file.kind, why))

    async def _put(self, case_id: str, trace: str, record: bytes) -> None:
        await in_thread(self._cases.put, case_id, record_name(trace), record)


class _Progress:
    """A few lines of progress, the same ones when a worker takes over."""

    def __init__(self, traces: Mapping[str, Stored], unread: int, say: Say) -> None:
        self._count, self._read, self._say = len(traces), len(traces) - unread, say
        self._bytes = sum(stored.size for stored in traces.values())
        self._unread, self._last_tenth = unread, -1

    async def tell(self, left: int) -> None:
        """Report progress: `left` of the unread ones have not ended."""
        done = self._count - min(left, self._unread)
        if self._last_tenth < 0:
            size = f"{self._bytes / 1e9:.1f} GB"
            await self._say(
                "traces: begun", f"{counted(self._count, 'trace')} of {size}, read by every worker"
            )
        tenth = done * LINES // self._count
        if tenth > max(self._last_tenth, 0):
            await self._say(f"traces: {tenth}", f"{done} of {self._count} ranks read")
        self._last_tenth = tenth


@contextmanager
def _among(runs: set[str] | None, run: str) -> Iterator[None]:
    if runs is None:
        yield
        return
    runs.add(run)
    try:
        yield
    finally:
        runs.discard(run)


def read_into_record(task: RankTask) -> bytes:
    """In a process of the pool: the trace's record. What reads and compares is imported there
    alone."""
    from faultline.analysis.traces.across_ranks.rank_summary import to_json
    from faultline.analysis.traces.job.rank_reading import read_ranks

    file = _job_file(task.path)
    if file is None:
        raise FileNotFoundError(task.trace)
    if not is_trace(file):
        return record_bytes(_no_trace(task.trace, task.stored, task.run, file.kind))
    reading = read_ranks(file)
    record = StoredRecord(
        trace=task.trace,
        version=task.stored.version,
        kind=file.kind,
        size=task.stored.size,
        run=task.run,
        problem=reading.problem,
        passing=reading.passing,
        summaries=tuple(Raw(to_json(summary)) for summary in reading.summaries),
    )
    return record_bytes(record)


def _no_trace(trace: str, stored: Stored, run: str, kind: FileKind) -> StoredRecord:
    return StoredRecord(trace, stored.version, kind, stored.size, run, is_trace=False)


def _unread(trace: str, stored: Stored, run: str, kind: FileKind, problem: str) -> StoredRecord:
    return StoredRecord(
        trace, stored.version, kind, stored.size, run, problem=problem, passing=True
    )


def _job_file(path: Path) -> JobFile | None:
    return next(iter(sort_job_files([path]).files), None)


def _worth_a_turn(name: str, stored: Stored) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:  # a record could not name it
        return False
    return stored.size >= WORTH_A_TURN_BYTES


def _unpacked(name: str, stored: Stored) -> int:
    return stored.size * (BYTES_PER_PACKED_BYTE if name.lower().endswith(".gz") else 1)


# Reports of Nsight Systems among the files that a connector brought become exports, which the
# analysis can read.

PART_SECONDS = EXPORT_SECONDS
"""Longest exporting of all reports of one connector together."""
MAX_BYTES = 16 * 1024**3
"""Most that all exports of one connector may take (own: as much as its trace files)."""
KEEP_FREE_BYTES = 1024**3


def with_exports(collected: Collected, files: Path) -> Collected:
    """The same with exports in the place of reports below `files`; what cannot be exported stays,
    and is a gap."""
    waiting = without_export(sorted(p for p in files.rglob("*") if p.is_file() and is_report(p)))
    if not waiting:
        return collected
    items = {item.file: item for item in collected.items if item.file is not None}
    missing = list(collected.missing)
    ends = time.monotonic() + PART_SECONDS
    left = min(MAX_BYTES, max(0, shutil.disk_usage(files).free - KEEP_FREE_BYTES))
    for report in waiting:
        name = report.relative_to(files).as_posix()
        try:
            target = _in_place(report, name, left, ends - time.monotonic())
        except EvidenceError as error:
            item = items.get(name)
            missing.append(
                Missing(
                    "traces",
                    item.query if item else name,
                    error.problem,
                    item.source if item else None,
                )
            )
            continue
        left -= target.stat().st_size
        if name in items:
            items[name] = _exported_item(items[name], target, files)
    changed = tuple(
        items.get(item.file, item) if item.file is not None else item for item in collected.items
    )
    return replace(collected, items=changed, missing=tuple(missing))


def _in_place(report: Path, name: str, most_bytes: int, seconds: float) -> Path:
    """The export beside the report, which is removed."""
    if seconds <= 0:
        raise EvidenceError(
            name, f"the {PART_SECONDS:g} s for exporting reports were used up by others"
        )
    with tempfile.TemporaryDirectory(prefix="faultline-export-") as scratch:
        copy = exported(
            report, Path(scratch), name=Path(name).name, most_bytes=most_bytes, limit_s=seconds
        )
        target = report.with_suffix(".sqlite")
        shutil.move(copy, target)
    # Only now that the export is in its place.
    os.unlink(report)
    return target


def _exported_item(item: Item, target: Path, files: Path) -> Item:
    details = {**item.details, "exported": "by nsys, from the report that the link leads to"}
    return replace(
        item,
        file=target.relative_to(files).as_posix(),
        bytes=target.stat().st_size,
        details=details,
    )
