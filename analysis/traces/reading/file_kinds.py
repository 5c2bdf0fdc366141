"""What a file of a training job is, by its first bytes; the name counts only where the bytes do not
decide.

Only a first block is unpacked here; nothing is unpickled or parsed.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable
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
    "xplane",
    "perfetto_trace",
    "rocprof_json",
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

TRACES: tuple[FileKind, ...] = (
    "profiler_trace",
    "nsight_sqlite",
    "xplane",
    "perfetto_trace",
    "rocprof_json",
)
"""Kinds that `job/trace_readers.py` reads into columns."""
SEVERAL_RANKS: tuple[FileKind, ...] = TRACES[1:]
"""Those of which one file may hold several processes or devices."""
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
_TRACE_LIST = re.compile(rb'\[\s*\{.{0,400}?"ph"\s*:\s*"[A-Za-z]"', re.DOTALL)
"""Old traces, and those of Ascend NPUs, are a bare list of events."""
_TIMELINE_ROWS = re.compile(rb"\[\s*\[\s*-?\d+\s*,\s*-?\d+\s*,")
"""export_memory_timeline(".raw.json"): a list of rows of numbers."""
_TIMELINE_TIMES = re.compile(rb"\[\s*\[\s*-?\d[\d\s,]*+\]\s*,\s*\[")
"""export_memory_timeline(".json"): a list of times, then the sizes."""
_TRACEML_KEYS = (b'"primary_diagnosis"', b'"analysis_window"', b'"step_time"')
_TEXT = re.compile(rb"[\t\n\r\x20-\x7e\x80-\xff]*")
# The length of a message: a varint of at most five bytes.
_LENGTH = rb"[\x80-\xff]{0,4}[\x00-\x7f]"
_XPLANE = re.compile(
    rb"\x0a" + _LENGTH + rb"(?:\x08[\x80-\xff]{0,9}[\x00-\x7f])?\x12" + _LENGTH + rb"[/A-Z][ -~]{3}"
)
"""XSpace.planes: a number that may be missing, and a name ("/host:CPU", "Task Environment")."""
_PACKET = re.compile(
    rb"\x0a" + _LENGTH + rb"(?:[\x08\x38\x40\x50\x68\x78][\x80-\xff]{0,9}[\x00-\x7f]"
    rb"|[\x0a\x12\x1a\x22\x2a\x32\x3a\x4a\x5a\x62\x72]" + _LENGTH + rb"[\x00-\xff]"
    rb"|[\x80-\xff][\x01-\x7f][\x00-\xff])"
)
"""Trace.packet: a message whose first field is a number, a message or one with a large number."""
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
        return _empty(path)
    if head.startswith(b":W&B\xe1\xbe"):
        return "wandb_run"
    if head.startswith(b"SQLite format 3\0"):
        return _database(head)
    if head[:1] == b"\x0a" and (protobuf := _protobuf(head)) is not None:
        return protobuf
    if name.endswith((".nsys-rep", ".qdrep")):
        return "nsight_report"
    # A pickle begins with the opcode PROTO and the number of its protocol.
    if head[:1] == b"\x80" and len(head) > 1 and head[1] <= 5:
        return _pickle(path, head)
    # A byte order mark may precede the text.
    start = head.lstrip(b"\xef\xbb\xbf \t\r\n")
    if _JSON_START.match(start):
        return _json(path, start)
    if start[:200].lower().startswith((b"<!doctype html", b"<html")):
        return _page(head)
    return _text(path, head)


def _empty(path: Path) -> FileKind:
    # A rank that died while it wrote its dump leaves an empty one; that is worth a word.
    is_text = path.name.lower().endswith((".txt", ".log"))
    if DUMP_NAME.search(path.name) and not is_text:
        return "flight_recorder"
    return "empty"


def _database(head: bytes) -> FileKind:
    if _holds_any(head, (b"CUPTI_ACTIVITY", b"TARGET_INFO", b"StringIds", b"NVTX_EVENTS")):
        return "nsight_sqlite"
    if _holds_any(head, (b"step_time_samples", b"process_samples")):
        return "traceml"
    return "other"


def _protobuf(head: bytes) -> FileKind | None:
    """What a file is whose first field has the number 1: planes of XLA or packets of Perfetto."""
    # A text may begin with an empty line, which is the same byte.
    if _TEXT.fullmatch(head[:512]):
        return None
    if _XPLANE.match(head):
        return "xplane"
    return "perfetto_trace" if _PACKET.match(head) else None


def _holds_any(text: bytes, marks: Iterable[bytes]) -> bool:
    return any(mark in text for mark in marks)


def _pickle(path: Path, head: bytes) -> FileKind:
    if _holds_any(head, (b"device_traces", b"segments")):
        return "memory_snapshot"
    if _holds_any(head, (*_RECORDER_KEYS, b"entries")) or DUMP_NAME.search(path.name):
        return "flight_recorder"
    return "other"


def _json(path: Path, head: bytes) -> FileKind:
    if path.name == "capture.json" and b'"capture"' in head[:200]:
        return "capture_note"
    if b'"rocprofiler-sdk-tool"' in head[:400]:
        return "rocprof_json"
    if _holds_any(head, _TRACE_KEYS) or _TRACE_LIST.match(head):
        return "profiler_trace"
    if _is_recorder(head):
        return "flight_recorder"
    if b'"nodes"' in head and b'"schema"' in head[:400]:
        return "execution_trace"
    if b"pytorch.wait_counter." in head[:4096]:
        return "debug_answer"
    if _TIMELINE_ROWS.match(head) or _TIMELINE_TIMES.match(head):
        return "memory_timeline"
    return _json_lines(path, head)


def _is_recorder(head: bytes) -> bool:
    begin = head[:4096]
    if b'"entries"' in begin and _holds_any(head, (*_RECORDER_KEYS, b"collective_seq_id")):
        return True
    return any(b'"' + key + b'"' in begin for key in _RECORDER_KEYS)


def _json_lines(path: Path, head: bytes) -> FileKind:
    """What its first line, else its name or its first keys, make of JSON that is none of the
    above."""
    lines = head.splitlines()
    first = lines[0] if lines else b""
    if b'"log_type_name"' in first and b'"time_us"' in first:
        return "structured_log"
    if _METRIC.search(first) and _STEP.search(first):
        return "metrics"
    if path.suffix.lower() == ".jsonl":
        return "metrics" if _STEP.search(head) or _METRIC.search(head) else "log"
    if re.search(r"\.pt\.trace\.json|_trace\.json(\.gz)?$", path.name):
        return "profiler_trace"
    if b'"schema_version"' in head[:400] and _holds_any(head, _TRACEML_KEYS):
        return "traceml"
    return "other"


def _page(head: bytes) -> FileKind:
    if b"PyTorch Distributed" not in head[:4096]:
        return "other"
    if _holds_any(head, (b"/handler/fr_trace_json", b"/handler/dump_nccl_trace_json")):
        return "flight_recorder"
    if _holds_any(head, (b"/handler/dump_traceback", b"/handler/pyspy_dump")):
        return "stack_dump"
    return "debug_answer"


def _text(path: Path, head: bytes) -> FileKind:
    if head.strip() == b"pong":
        return "debug_answer"
    if b"\0" in head[:1024]:
        return "other"
    match = _STACKS.search(head[:4096])
    if match and match.start() < 400:
        return "stack_dump"
    # Rotated logs end in a number: train.log.1.
    if path.suffix.lower() in _LOG_SUFFIXES or path.suffix[1:].isdigit():
        return "log"
    return "other"


def rank_in_name(path: Path) -> int | None:
    """The rank that a file's name (or torchelastic's folder) gives, or None."""
    match = _RANK.search(path.name)
    if match is None:
        match = _LAST_NUMBER.search(path.name)
    if match is None:
        match = _ELASTIC.search(path.as_posix())
    if match is not None:
        return int(match[1])
    folder = path.parent.name
    if path.stem in ("stdout", "stderr") and re.fullmatch(r"\d{1,6}", folder):
        return int(folder)
    return None
