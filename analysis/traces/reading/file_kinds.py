"""What a file of a training job is, told by its first bytes; the name is asked only where the bytes
say nothing.

Nothing is unpickled, parsed or unpacked here but a first block.
"""

from __future__ import annotations

import re
import zlib
from pathlib import Path
from typing import Literal

FileKind = Literal[
    "profiler_trace",
    "execution_trace",
    "flight_recorder",
    "stack_dump",
    "debug_answer",
    "metrics",
    "log",
    "structured_log",
    "memory_timeline",
    "memory_snapshot",
    "nsight_sqlite",
    "nsight_report",
    "traceml",
    "wandb_run",
    "label",
    "capture_note",
    "empty",
    "other",
]
"""`debug_answer`: other answers of torch's debug server (ping, wait counters, pages without dumps).
`structured_log`: TorchTitan's spans, one JSON line each (`job_logs/structured_log.py`).
`capture_note`: what `faultline capture` says of the files beside it.
`label`: what a person or a test wrote about the job; its content is never read."""

HEAD_BYTES = 65_536
DUMP_NAME = re.compile(
    r"(?:^|[_.-])(?:rank_?\d+|dump_\d+)$|fr_trace|flight_recorder|comm_lib_trace|nccl_trace", re.I
)
"""Flight recorder files: rank_3, comm_lib_trace_rank_3, nccl_trace_rank_3, _dump_3,
rank3.fr_trace_json.json."""
_RANK = re.compile(r"(?:^|[^a-z])rank[-_.]?(\d{1,6})(?!\d)", re.I)
_LAST_NUMBER = re.compile(r"(?:^|[_.-])dump_(\d{1,6})$")
_ELASTIC = re.compile(r"(?:^|/)attempt_\d+/(\d{1,6})/(?:stdout|stderr)\.(?:log|txt)$")
_STACKS = re.compile(
    rb"^(?:Current thread|Thread) 0x[0-9a-f]+[^\n]*\(most recent call first\)|^Process \d+: ", re.M
)
_METRIC = re.compile(
    rb'"(?:[a-z_./]{0,80}loss[a-z_./]{0,80}|grad_norm|step_ms|throughput\(tps\))"\s*:', re.I
)
_STEP = re.compile(rb'"(?:step|_step|global_step|iteration)"\s*:')
_JSON_START = re.compile(rb'\{\s*["}]|\[\s*[\[{\]"]|\[\s*-?\d+(?:\.\d+)?\s*[,\]]')
_LOG_SUFFIXES = frozenset({"", ".log", ".txt", ".out", ".err", ".stdout", ".stderr"})
_TRACE_KEYS = (
    b'"traceEvents"',
    b'"deviceProperties"',
    b'"schemaVersion"',
    b'"displayTimeUnit"',
    b'"baseTimeNanoseconds"',
)
_TRACEML_KEYS = (b'"primary_diagnosis"', b'"analysis_window"', b'"step_time"')
_RECORDER_KEYS = (
    b"pg_config",
    b"pg_status",
    b"comm_lib_version",
    b"nccl_version",
    b"nccl_comm_state",
)


def first_block(path: Path, limit: int = HEAD_BYTES) -> bytes:
    """The first bytes of a file, unpacked if it is gzip. Raises OSError where it cannot be
    opened."""
    with path.open("rb") as file:
        head = file.read(limit)
    if head[:2] != b"\x1f\x8b":
        return head
    try:
        return zlib.decompressobj(wbits=31).decompress(head, limit)
    except zlib.error:
        return b""


def kind_of(path: Path, head: bytes) -> FileKind:
    """The kind of a file with this first block (of the unpacked bytes)."""
    name = path.name.lower()
    if name.startswith("label.") or name == "label":
        return "label"
    if not head.strip():
        return (
            "flight_recorder"
            if DUMP_NAME.search(path.name) and not name.endswith((".txt", ".log"))
            else "empty"
        )
    if head.startswith(b":W&B\xe1\xbe"):
        return "wandb_run"
    if head.startswith(b"SQLite format 3\0"):
        return _database(head)
    if name.endswith((".nsys-rep", ".qdrep")):
        return "nsight_report"
    if head[:1] == b"\x80" and len(head) > 1 and head[1] <= 5:
        return _pickle(path, head)
    start = head.lstrip(b"\xef\xbb\xbf \t\r\n")
    if _JSON_START.match(start):
        return _json(path, start)
    if start[:200].lower().startswith((b"<!doctype html", b"<html")):
        return _page(head)
    return _text(path, head)


def _database(head: bytes) -> FileKind:
    if any(
        mark in head for mark in (b"CUPTI_ACTIVITY", b"TARGET_INFO", b"StringIds", b"NVTX_EVENTS")
    ):
        return "nsight_sqlite"
    return "traceml" if b"step_time_samples" in head or b"process_samples" in head else "other"


def _pickle(path: Path, head: bytes) -> FileKind:
    if b"device_traces" in head or b"segments" in head:
        return "memory_snapshot"
    known = any(key in head for key in _RECORDER_KEYS) or b"entries" in head
    return "flight_recorder" if known or DUMP_NAME.search(path.name) else "other"


def _json(path: Path, head: bytes) -> FileKind:
    if path.name == "capture.json" and b'"capture"' in head[:200]:
        return "capture_note"
    if any(key in head for key in _TRACE_KEYS) or re.match(rb'\[\s*\{[^}]{0,400}"ph"\s*:', head):
        return "profiler_trace"
    if b'"entries"' in head[:4096] and any(
        key in head for key in (*_RECORDER_KEYS, b"collective_seq_id")
    ):
        return "flight_recorder"
    if any(b'"' + key + b'"' in head[:4096] for key in _RECORDER_KEYS):
        return "flight_recorder"
    if b'"nodes"' in head and b'"schema"' in head[:400]:
        return "execution_trace"
    if b"pytorch.wait_counter." in head[:4096]:
        return "debug_answer"
    if re.match(rb"\[\s*\[\s*-?\d+\s*,\s*-?\d+\s*,", head) or re.match(
        rb"\[\s*\[\s*-?\d[\d\s,]*+\]\s*,\s*\[", head
    ):
        return "memory_timeline"
    lines = head.splitlines()
    first = lines[0] if lines else b""
    if b'"log_type_name"' in first and b'"time_us"' in first:
        return "structured_log"
    if (_METRIC.search(first) and _STEP.search(first)) or (
        path.suffix.lower() == ".jsonl" and _STEP.search(head)
    ):
        return "metrics"
    if path.suffix.lower() == ".jsonl":
        return "metrics" if _METRIC.search(head) else "log"
    if re.search(r"\.pt\.trace\.json|_trace\.json(\.gz)?$", path.name):
        return "profiler_trace"
    return (
        "traceml"
        if b'"schema_version"' in head[:400] and any(key in head for key in _TRACEML_KEYS)
        else "other"
    )


def _page(head: bytes) -> FileKind:
    if b"PyTorch Distributed" not in head[:4096]:
        return "other"
    if b"/handler/fr_trace_json" in head or b"/handler/dump_nccl_trace_json" in head:
        return "flight_recorder"
    return (
        "stack_dump"
        if b"/handler/dump_traceback" in head or b"/handler/pyspy_dump" in head
        else "debug_answer"
    )


def _text(path: Path, head: bytes) -> FileKind:
    if head.strip() == b"pong":
        return "debug_answer"
    if b"\0" in head[:1024]:
        return "other"
    found = _STACKS.search(head[:4096])
    if found and found.start() < 400:
        return "stack_dump"
    return "log" if path.suffix.lower() in _LOG_SUFFIXES or path.suffix[1:].isdigit() else "other"


def rank_in_name(path: Path) -> int | None:
    """The rank that a file's name (or torchelastic's folder) gives, or None."""
    found = (
        _RANK.search(path.name)
        or _LAST_NUMBER.search(path.name)
        or _ELASTIC.search(path.as_posix())
    )
    if (
        found is None
        and re.fullmatch(r"\d{1,6}", path.parent.name)
        and path.stem in ("stdout", "stderr")
    ):
        return int(path.parent.name)
    return int(found[1]) if found else None
