"""PyTorch Profiler (Kineto) traces in Chrome JSON: one file to `TraceColumns`.

It reads what can be read; `dropped` says what was lost. See docs/trace-engine/reading.md.
"""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np

from faultline.analysis.errors import EvidenceError
from faultline.analysis.traces.columns.events import TraceColumns
from faultline.analysis.traces.native.lane import NativeLane, library
from faultline.analysis.traces.reading.event_scanner import EventScanner, ScanLane, ScanLimits
from faultline.analysis.traces.reading.json_tokens import nanoseconds
from faultline.analysis.traces.reading.trace_bytes import (
    MAX_TRACE_BYTES,
    Progress,
    file_blocks,
    unpacked,
)
from faultline.analysis.traces.reading.trace_columns import columns_of, rank_of, with_distinct_ranks

__all__ = ["LIMITS", "nanoseconds", "read_trace", "read_trace_stream", "read_traces"]

LIMITS = ScanLimits()
NOT_A_TRACE = "is not a profiler trace"
_NO_EVENTS = (
    (re.compile(rb"SQLite format 3\0"), "an SQLite database, perhaps of Nsight Systems"),
    (
        re.compile(rb"\x80[\x00-\x05]"),
        "a pickle, perhaps a flight recorder dump or a memory snapshot",
    ),
    (re.compile(rb"PK\x03\x04|.{257}ustar", re.DOTALL), "an archive"),
    (re.compile(rb"\s*<"), "a page of HTML or XML"),
    (re.compile(rb'\s*[\[{].*"traceID"', re.DOTALL), "spans of Jaeger"),
    (re.compile(rb'\s*[\[{].*"(?:resourceSpans|scopeSpans)"', re.DOTALL), "spans of OpenTelemetry"),
    (re.compile(rb'\s*\{(?=.*"schema")(?=.*"nodes")', re.DOTALL), "a Chakra execution trace"),
    (
        re.compile(rb'\s*\{.*"(?:pg_config|pg_status|nccl_version|comm_lib_version)"', re.DOTALL),
        "a flight recorder dump",
    ),
    (re.compile(rb"\s*\[\s*\["), "a list of lists, perhaps a memory timeline"),
    (re.compile(rb"\s*[\[{]"), "JSON without a list of trace events"),
)
_BASE = re.compile(r'"baseTimeNanoseconds"\s*:\s*(\d{1,19})(?!\d)')
_RANK = re.compile(r'"distributedInfo"\s*:\s*\{[^{}\[\]]*?"rank"\s*:\s*(\d{1,6})(?!\d)')


def read_trace(
    path: Path,
    *,
    order: int = 0,
    max_bytes: int = MAX_TRACE_BYTES,
    progress: Progress | None = None,
) -> TraceColumns:
    """Read a .json or .json.gz trace. `order` is the rank where neither the trace nor its name
    gives one; `progress` is called with the number of bytes of the file read since its last call.

    Raises EvidenceError, one line, when the file cannot be opened or holds no list of trace events.
    """
    return read_trace_stream(
        str(path), file_blocks(path, progress), order=order, max_bytes=max_bytes
    )


def read_trace_stream(
    name: str,
    blocks: Iterable[bytes | memoryview],
    *,
    order: int = 0,
    max_bytes: int = MAX_TRACE_BYTES,
    lane: ScanLane | None = None,
) -> TraceColumns:
    """Read a trace, as it is or gzip, from blocks of any length. Raises EvidenceError as read_trace
    does.

    `lane` takes the events; the compiled one where it could be built.
    """
    dropped: Counter[str] = Counter()
    file = Path(name).name
    lane = lane or (_slow_lane() if library() is None else NativeLane(LIMITS))
    scanner = EventScanner(lane, dropped)
    scanner.read(unpacked(file, blocks, dropped, max_bytes))
    if not scanner.has_events:
        raise EvidenceError(file, _refusal(scanner.beginning))
    scanned = lane.finish()
    if scanner.full:
        dropped[f"rest of the file after {len(scanned.ts) + len(scanned.memory)} events"] += 1
    # Values without a phase are no events: this is some other list.
    unlike = not len(scanned.ts) and set(scanned.skipped) == {"no phase"}
    if unlike or (scanner.bare and dropped and not len(scanned.ts) and not scanned.skipped):
        raise EvidenceError(file, f"{NOT_A_TRACE} (a list without trace events)")
    header = _metadata(scanner.header, scanner.trailer)
    rank, source = rank_of(header, name, order)
    return columns_of(scanned, file=file, rank=rank, source=source, header=header, dropped=dropped)


def read_traces(
    paths: Iterable[Path],
    jobs: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> tuple[list[TraceColumns], list[EvidenceError]]:
    """All traces that can be read, by rank, and the errors of those that cannot.

    `jobs` files are read at a time (unpacking and scanning let go of the interpreter), as many as
    there are cores unless said otherwise. `progress` is called with bytes read and bytes in all, on
    disk; from any thread, never from two at once. Files that do not say their rank get the lowest
    free ones in their order. Where two say that they are the same rank, both are returned, each
    with a note.
    """
    files = list(paths)
    advance = _shared_progress(files, progress) if progress else None
    traces: list[TraceColumns] = []
    errors: list[EvidenceError] = []

    def read(order: int) -> TraceColumns | EvidenceError:
        try:
            return read_trace(files[order], order=order, progress=advance)
        except EvidenceError as error:
            return error

    with ThreadPoolExecutor(max(1, min(jobs or os.cpu_count() or 1, len(files)))) as pool:
        for outcome in pool.map(read, range(len(files))):
            if isinstance(outcome, EvidenceError):
                errors.append(outcome)
            else:
                traces.append(outcome)
    return with_distinct_ranks(traces), errors


def _slow_lane() -> ScanLane:
    from faultline.analysis.traces.reading.python_lane import (
        PythonLane,
    )  # with msgspec, which costs a cold start 30 ms

    return PythonLane(LIMITS)


def _shared_progress(files: list[Path], progress: Callable[[int, int], None]) -> Progress:
    total, done, lock = sum(file.stat().st_size for file in files if file.is_file()), 0, Lock()

    def advance(count: int) -> None:
        nonlocal done
        # Files are read by several threads.
        with lock:
            done += count
            progress(done, max(total, done))

    return advance


def _refusal(beginning: bytes) -> str:
    for pattern, what in _NO_EVENTS:
        if pattern.match(beginning):
            return (
                f"{NOT_A_TRACE} but {what}"
                if what[0] in "aA"
                else f"{NOT_A_TRACE} but holds {what}"
            )
    return f"{NOT_A_TRACE} (no list of trace events)"


def _metadata(header: bytes, trailer: bytes) -> dict[str, Any]:
    """What stands beside the list of events, from before it or after it."""
    before = header.decode("utf-8", "replace").strip().lstrip("\ufeff").rstrip(", \t\r\n")
    after = trailer.decode("utf-8", "replace").strip().lstrip(", \t\r\n")
    metadata: dict[str, Any] = {}
    # Close both halves: the list of events was cut out between them.
    for text in (before + "}", "{" + after):
        try:
            value = json.JSONDecoder(strict=False).raw_decode(text)[0]
        except (ValueError, RecursionError):
            continue
        metadata |= value if isinstance(value, dict) else {}
    # What was read as JSON outranks what a pattern found.
    return _by_pattern(before + after) | metadata


def _by_pattern(text: str) -> dict[str, Any]:
    """The values that matter most, where the header as a whole is not valid JSON."""
    metadata: dict[str, Any] = {}
    base, rank = _BASE.search(text), _RANK.search(text)
    if base:
        metadata["baseTimeNanoseconds"] = int(base[1])
    if rank:
        metadata["distributedInfo"] = {"rank": int(rank[1])}
    return metadata


# Traces of Ascend NPUs (`trace_view.json` of torch_npu and MindSpore) as the engine knows traces.
#
# Only events of the framework have categories there: the other processes say by their names what
# they hold. Source: `msprof`'s and torch_npu's viewers, and the documentation of MindStudio.

FORMAT = "Ascend trace (trace_view.json)"
HARDWARE, CANN, FRAMEWORKS = "Ascend Hardware", "CANN", ("Python", "MindSpore")
COMMUNICATION = ("Communication", "HCCL", "Communication(HCCL)")
_STREAM = re.compile(r"^Stream (\d{1,9})$")
_NO_WORK = re.compile(
    r"^(?:EVENT_|NOTIFY_|PROFILER_|MODEL_|CAPTURE_|LABEL_|STREAM_|PLACE_HOLDER|MAINTENANCE)",
    re.IGNORECASE,
)
"""Tasks that wait, mark or steer."""
_COPY = re.compile(r"^(?:MEMCPY|SDMA|PCIE_DMA)", re.IGNORECASE)
_COLLECTIVE = re.compile(r"^hcom", re.IGNORECASE)
CATEGORIES = (
    "cpu_op",
    "user_annotation",
    "privateuse1_runtime",
    "kernel",
    "gpu_memcpy",
    "npu_task",
)


def is_ascend(trace: TraceColumns) -> bool:
    """Whether the trace is one of an Ascend NPU."""
    return HARDWARE in trace.process_names.values()


def ascend_trace(trace: TraceColumns) -> TraceColumns:
    """The same with categories and streams. Waiting tasks, the planes of collectives and msprof's
    own analyses are no work ("npu_task")."""
    categories = (*trace.categories, *(c for c in CATEGORIES if c not in trace.categories))
    place = {name: number for number, name in enumerate(categories)}
    category, stream = trace.category.copy(), trace.stream.copy()
    task_types = trace.arguments.text("Task Type")
    for lane, (pid, _) in enumerate(trace.lanes):
        process = trace.process_names.get(pid, "")
        rows = np.flatnonzero(trace.lane == lane)
        # The framework's events already have categories.
        if not len(rows) or (process in FRAMEWORKS and any(trace.categories)):
            continue
        match = _STREAM.match(trace.lane_names.get(lane, ""))
        if match is not None:
            stream[rows] = int(match[1])
        types = task_types.at(rows)
        kinds = []
        for row, task in zip(rows.tolist(), types, strict=True):
            kinds.append(place[_category(process, trace.name_of(row), task)])
        category[rows] = np.asarray(kinds, dtype=np.int32)
    header = {"deviceProperties": [{"name": "Ascend NPU"}], **trace.header}
    return replace(
        trace,
        category=category,
        categories=categories,
        stream=stream,
        header=header,
        format=FORMAT,
    )


def _category(process: str, name: str, task: str) -> str:
    if process in FRAMEWORKS:
        return "user_annotation" if name.startswith("ProfilerStep#") else "cpu_op"
    if process == CANN:
        return "privateuse1_runtime"
    if process in COMMUNICATION:
        return "kernel" if _COLLECTIVE.match(name) else "npu_task"
    if process != HARDWARE or _NO_WORK.match(task or name):
        return "npu_task"
    return "gpu_memcpy" if _COPY.match(task or name) else "kernel"
