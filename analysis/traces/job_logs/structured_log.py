"""TorchTitan's structured log: one JSON line per begin and end of a span, one file per rank.

Format: torchtitan/observability/structured_logger (jsonl_handler.py at 276e0b9,
structured_logging.py at 11a4957; `structured_logs/<source>.global_rank_<r>.<time>-<random>.jsonl`).
A span writes `<name>_start` and `<name>_end`, whose `value` is its length in ms; `<name>_error`
comes before the end of one that raised. Scalars are `metric_value` lines. The trainer's spans are
`step`, and in it `fetching_batch`, `fwd_bwd`, `optim`, `collect_dist_metrics`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from faultline.analysis.traces.job_logs.lines import MAX_HEAD_BYTES, bounded_lines
from faultline.analysis.traces.reading.file_kinds import first_block
from faultline.analysis.traces.reading.job_files import JobFile

MARK = '"log_type_name"'
STEP = "step"
DATA_SPANS = frozenset({"fetching_batch", "data_loading", "data_load", "dataloading"})
"""TorchTitan's name for waiting for the next batch, and those that other jobs give it."""
MAX_RECORDS = 4_000_000
"""Over all ranks."""
MAX_OPEN = 64
"""Spans open in one another; beyond, the outermost is forgotten."""
MAX_THREADS = 256
"""Threads and tasks of one process with open spans."""
MAX_STEPS = 200_000
"""Steps kept of one rank."""
MAX_NAME = 120
LARGEST_STEP = 2**53


class _Record(msgspec.Struct):
    log_type_name: str
    time_us: int | float
    log_type: str = "event"
    rank: int | None = None
    source: str = ""
    step: int | None = None
    value: int | float | None = None
    event_name: str | None = None
    task_name: str | None = None
    tid: int | None = None
    pid: int | None = None
    message: str | None = None


@dataclass(frozen=True)
class OpenSpan:
    """A span that had not ended when the log ends."""

    name: str
    step: int | None
    start_us: int
    """Microseconds since 1970."""


@dataclass
class RankSpans:
    """What one rank's spans say."""

    rank: int
    step_ms: dict[int, float] = field(default_factory=dict)
    data_ms: dict[int, float] = field(default_factory=dict)
    """Time in the data loader by step, over all of the step's batches."""
    open: tuple[OpenSpan, ...] = ()
    """Of the thread that runs the steps, the outermost first; empty where all spans ended."""
    last_us: int = 0
    """Of the last line."""

    @property
    def place(self) -> OpenSpan:
        """Where it stands: the innermost open span; one without a name where none is open."""
        return (
            self.open[-1]
            if self.open
            else OpenSpan("", max(self.step_ms, default=None), self.last_us)
        )


def read_structured_logs(files: Iterable[JobFile]) -> list[RankSpans]:
    """The spans of every rank, by rank, from structured logs and from logs among whose first lines
    are such.

    Of several programs with separate ranks (a trainer and its generators) the one with most
    steps stands for the job. Of several files of a rank the one that was written last says where it
    stands. Never raises for a file.
    """
    sources: dict[str, dict[int, RankSpans]] = {}
    left = MAX_RECORDS
    for file in files:
        if left <= 0:
            break
        if file.kind != "structured_log" and MARK.encode() not in _head(file):
            continue
        reader = _FileReader(file.rank, left)
        reader.read(file)
        left = reader.left
        for source, rank_spans in reader.finished():
            earlier_spans = sources.setdefault(source, {}).get(rank_spans.rank)
            sources[source][rank_spans.rank] = (
                rank_spans if earlier_spans is None else _joined(earlier_spans, rank_spans)
            )
    largest = max(
        sources.values(),
        key=lambda ranks: (sum(len(r.step_ms) for r in ranks.values()), len(ranks)),
        default={},
    )
    return [largest[rank] for rank in sorted(largest)]


def scalar_row(line: str) -> dict[str, Any] | None:
    """A scalar, or the length of a step, as a row of metrics; None for any other line of a
    structured log."""
    # Look for the words first: parsing every line is slow.
    if '"metric_value"' not in line and '"step_end"' not in line:
        return None
    record = _record(line)
    if record is None or record.value is None:
        return None
    key = record.event_name if record.log_type_name == "metric_value" else "step_ms"
    when = record.time_us / 1e6
    return {"_timestamp": when, "rank": record.rank, "step": record.step, key or "": record.value}


def raised_in(line: str) -> tuple[str, str] | None:
    """(type, message) of the exception that ended a span, from its `_error` line."""
    if '_error"' not in line:
        return None
    record = _record(line)
    if record is None or not record.log_type_name.endswith("_error") or record.message is None:
        return None
    _, separator, error_text = record.message.partition(f"{record.log_type_name}: ")
    kind, _, message = error_text.partition(": ")
    return (kind, message) if separator and kind.isidentifier() else None


class _FileReader:
    """One file: the spans of its process, and those that are open."""

    def __init__(self, rank: int | None, left: int) -> None:
        self.left = left
        self._rank = rank
        self._spans: dict[tuple[str, int], RankSpans] = {}
        self._open: dict[tuple[str, int], dict[tuple[Any, ...], list[OpenSpan]]] = {}

    def read(self, file: JobFile) -> None:
        before = 0
        for offset, line in bounded_lines(file.path):
            # The middle of a long log is skipped: what was open before may have ended there.
            if before < MAX_HEAD_BYTES <= offset:
                self._open.clear()
            before = offset
            if MARK not in line:
                continue
            record = _record(line)
            self.left -= 1
            if record is not None:
                self._take(record)
            if self.left <= 0:
                return

    def finished(self) -> list[tuple[str, RankSpans]]:
        """(source, spans) of every rank in the file; in TorchTitan's it is one."""
        for key, rank_spans in self._spans.items():
            # The thread in which a step is open; else the one in which something began last.
            remaining_stacks = [stack for stack in self._open.get(key, {}).values() if stack]
            remaining_stack = max(
                remaining_stacks,
                key=lambda s: (any(o.name == STEP for o in s), s[-1].start_us),
                default=[],
            )
            rank_spans.open = tuple(remaining_stack)
        return [(source, rank_spans) for (source, _), rank_spans in self._spans.items()]

    def _take(self, record: _Record) -> None:
        rank = record.rank if record.rank is not None else self._rank
        # A hostile log may name any rank.
        if rank is None or not 0 <= rank < 10**6:
            return
        key = (record.source[:MAX_NAME], rank)
        rank_spans = self._spans.setdefault(key, RankSpans(rank))
        rank_spans.last_us = max(rank_spans.last_us, int(record.time_us))
        if record.log_type != "event":
            return
        name, _, edge = record.log_type_name.rpartition("_")
        threads = self._open.setdefault(key, {})
        thread = (record.pid, record.tid, record.task_name)
        if edge == "start" and (thread in threads or len(threads) < MAX_THREADS):
            _begin(threads.setdefault(thread, []), name, record)
        elif edge == "end":
            _end(threads.get(thread, []), name)
            if not threads.get(thread):
                threads.pop(thread, None)
            _timed(rank_spans, name, record)


def _begin(stack: list[OpenSpan], name: str, record: _Record) -> None:
    """A step begins in no other: what is still open was interrupted, or its end lies where the log
    is not read."""
    if name == STEP:
        stack.clear()
    stack.append(OpenSpan(name[:MAX_NAME], record.step, int(record.time_us)))
    if len(stack) > MAX_OPEN:
        del stack[0]


def _end(stack: list[OpenSpan], name: str) -> None:
    for at in range(len(stack) - 1, -1, -1):
        if stack[at].name == name[:MAX_NAME]:
            # Ends of inner spans may be missing: the end of an outer one closes them, too.
            del stack[at:]
            return


def _timed(rank_spans: RankSpans, name: str, record: _Record) -> None:
    step, ms = record.step, record.value
    if step is None or ms is None or not 0 <= ms < math.inf:
        return
    if name == STEP and len(rank_spans.step_ms) < MAX_STEPS:
        rank_spans.step_ms[step] = float(ms)
    elif name in DATA_SPANS and (step in rank_spans.data_ms or len(rank_spans.data_ms) < MAX_STEPS):
        # A step may fetch several batches: their times add up.
        rank_spans.data_ms[step] = rank_spans.data_ms.get(step, 0.0) + float(ms)


def _joined(spans: RankSpans, other: RankSpans) -> RankSpans:
    """A rank's logs before and after a restart; steps that were done again count as done the last
    time."""
    first, last = sorted((spans, other), key=lambda r: r.last_us)
    return RankSpans(
        spans.rank,
        _latest(first.step_ms, last.step_ms),
        _latest(first.data_ms, last.data_ms),
        last.open,
        last.last_us,
    )


def _latest(first: Mapping[int, float], last: Mapping[int, float]) -> dict[int, float]:
    return {**first, **last}


_decoder = msgspec.json.Decoder(_Record)


def _record(line: str) -> _Record | None:
    """A line of the log, also with the bare NaN and Infinity that Python writes; None for anything
    else."""
    start = line.find("{")
    try:
        record = _decoder.decode(line[start:]) if start >= 0 else None
    except (msgspec.DecodeError, RecursionError, UnicodeEncodeError):
        record = _with_bare_nan(line[start:])
    if record is None or not 0 <= record.time_us < LARGEST_STEP:
        return None
    if record.step is not None and not 0 <= record.step < LARGEST_STEP:
        record.step = None
    if isinstance(record.value, int) and abs(record.value) >= LARGEST_STEP:
        record.value = None
    return record


def _with_bare_nan(text: str) -> _Record | None:
    if "NaN" not in text and "Infinity" not in text:
        return None
    try:
        return msgspec.convert(json.loads(text), _Record)
    except (ValueError, RecursionError, OverflowError):
        return None


def _head(file: JobFile) -> bytes:
    try:
        return first_block(file.path)
    except OSError:
        return b""


def usual_step_ms(ranks: Iterable[RankSpans]) -> float:
    """Median over all steps of all ranks; 0 where none was timed."""
    times = sorted(ms for rank in ranks for ms in rank.step_ms.values())
    return times[len(times) // 2] if times else 0.0
