"""Trace files by their names: what a file is, whose it is, when it was taken, and which ones belong
to an incident.

Known names: torch.profiler's TensorBoard handler (`host_pid.1700000000000.pt.trace.json.gz`),
TorchTitan (`iteration_40/rank3_trace.json.gz`), Dynolog (`trace_4711.json`), flight-recorder dumps
(`comm_lib_trace_rank_3`), CUDA memory snapshots (`step_40/000003_step_40.pickle`,
`memory_snapshot_4711.pickle`), Nsight Systems exports, TraceML's telemetry (`aggregator/telemetry`,
`final_summary.json`), wandb's offline runs (`run-3x9k.wandb`), metrics as JSON lines, logs
(`attempt_0/3/stderr.log`) and stack dumps. In a place of dumps every file whose name ends with a
number is one, in a place of logs every file that is nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Literal

from faultline.analysis.vocabulary import Window

TraceKind = Literal[
    "profile", "flight_recorder", "memory_snapshot", "nsight", "telemetry", "stacks", "log"
]
PlaceOf = Literal["traces", "dumps", "logs"]

MOST_LISTED = 200_000
"""Files looked at in one place."""
GRACE = timedelta(minutes=15)
"""A trace is written out after what it shows; one finished so soon after the window still belongs
to it."""
_SKEW = timedelta(minutes=1)

# In this order: the first pattern that fits decides.
_KINDS: tuple[tuple[TraceKind, re.Pattern[str]], ...] = (
    (
        "flight_recorder",
        re.compile(r"(^|/)(comm_lib_trace_|nccl_trace_|fr_)?rank_?\d+(\.pickle|\.pkl|\.json)?$"),
    ),
    (
        "flight_recorder",
        re.compile(
            r"(^|/)(comm_lib_trace_rank_|nccl_trace_rank_|_dump_)\d+(\.pickle|\.pkl|\.json)?$"
        ),
    ),
    ("flight_recorder", re.compile(r"(^|[/._-])fr_trace[^/]*\.json$")),
    (
        "telemetry",
        re.compile(r"\.wandb$|\.jsonl$|(^|/)aggregator/telemetry$|(^|/)final_summary\.json$"),
    ),
    ("stacks", re.compile(r"(^|[/._-])(stacks?|traceback)[^/]*\.txt$", re.I)),
    ("log", re.compile(r"\.(log|out|err)$|(^|/)(log|stdout|stderr)[^/]*\.txt$", re.I)),
    ("nsight", re.compile(r"\.(sqlite3?(\.gz)?|nsys-rep|qdrep)$")),
    ("memory_snapshot", re.compile(r"\.(pickle|pkl)$")),
    ("profile", re.compile(r"\.json\.gz$", re.I)),
    (
        "profile",
        re.compile(r"(^|/)(?=[^/]*(trace|rank|worker|prof|kineto|_\d+\.))[^/]*\.json$", re.I),
    ),
)
_OTHER_JSON = re.compile(
    r"(^|/)label\.json$|(wait_counter_values|metrics|config|(?<!final_)summary)[^/]*\.json$", re.I
)
"""JSON that is next to traces and is none; label.json is the truth of a labelled case."""
_RANK = re.compile(r"(?:^|[^a-z])rank[-_]?(\d{1,6})(?!\d)", re.I)
_DUMP = re.compile(r"_dump_(\d{1,6})$")
_SNAPSHOT = re.compile(r"(^|/)(\d{6})_step_\d+\.(pickle|pkl)$")
_TENSORBOARD = re.compile(r"(?P<worker>[^/]*?)(?:\.(?P<time>\d{10,19}))?\.pt\.trace\.json(\.gz)?$")
_ELASTIC = re.compile(r"(?:^|/)attempt_\d+/(\d{1,6})/(?:stdout|stderr)\.(?:log|txt)$")
_LAST_NUMBER = re.compile(r"(?:^|\D)(\d{1,6})(?:\.pickle|\.pkl|\.json)?$")
_PID = re.compile(r"_(\d+)(\.pt\.trace)?(\.json|\.json\.gz|\.pickle)$")


@dataclass(frozen=True)
class TraceFile:
    """A file where traces lie. `name` is relative to that place, with `/`."""

    name: str
    size: int
    modified: datetime


@dataclass(frozen=True)
class TraceCapture:
    """A file known as a trace: `who` is a rank, a process or a worker, `taken` when its capture
    ended."""

    file: TraceFile
    kind: TraceKind
    who: str
    taken: datetime


def read_name(file: TraceFile, place: PlaceOf = "traces") -> TraceCapture | None:
    """What the name tells, in a place of such files; None for files that are no traces."""
    kind = next((kind for kind, pattern in _KINDS if pattern.search(file.name)), None)
    if _OTHER_JSON.search(file.name):
        return None
    if (
        place == "dumps"
        and kind in (None, "profile", "memory_snapshot")
        and _LAST_NUMBER.search(file.name)
    ):
        kind = "flight_recorder"
    elif place == "logs":
        kind = kind or "log"
    return TraceCapture(file, kind, _who(file.name, kind), _taken(file)) if kind else None


def _who(name: str, kind: TraceKind) -> str:
    base = name.rsplit("/", 1)[-1]
    rank = _rank(name, base, kind)
    if kind in ("log", "telemetry"):  # one rank leaves several
        return f"rank {rank}, {base}" if rank is not None else f"file {name}"
    if rank is not None:
        return f"rank {rank}"
    tensorboard = _TENSORBOARD.match(base)
    if tensorboard:
        return f"worker {tensorboard['worker']}"
    process = _PID.search(base)
    return f"process {process[1]}" if process else f"file {name}"


def _rank(name: str, base: str, kind: TraceKind) -> int | None:
    match = _RANK.search(base) or _DUMP.search(base) or _ELASTIC.search(name)
    snapshot = _SNAPSHOT.search(base)
    if match is None and snapshot:
        return int(snapshot[2])
    # A dump ends with its rank. Other files may end with any number.
    if match is None and kind == "flight_recorder":
        match = _LAST_NUMBER.search(base)
    return int(match[1]) if match else None


def _taken(file: TraceFile) -> datetime:
    """The time in a TensorBoard name (seconds to nanoseconds, told by its digits), else when the
    file was written."""
    match = _TENSORBOARD.match(file.name.rsplit("/", 1)[-1])
    digits = match["time"] if match else None
    if not digits:
        return file.modified
    seconds = int(digits) / 10 ** max(0, len(digits) - 10)
    return datetime.fromtimestamp(seconds, UTC)


@dataclass(frozen=True)
class Choice:
    """The captures to take, lowest rank first. In words: what is missing by a limit, and what was
    not needed."""

    captures: tuple[TraceCapture, ...]
    left_out: tuple[str, ...]
    not_needed: tuple[str, ...]
    outside: str | None
    """Set when none is in the incident window: how far the nearest ones are from it."""


def choose(
    files: Iterable[TraceFile],
    incident: Window,
    *,
    max_file_bytes: int,
    max_files: int,
    place: PlaceOf = "traces",
) -> Choice:
    """The newest capture of each rank and kind in the incident window; where a rank has none there,
    its nearest."""
    every = list(files)
    captures = [capture for file in every if (capture := read_name(file, place)) is not None]
    small = [c for c in captures if _fits(c, max_file_bytes)]
    trace_captures: dict[tuple[TraceKind, str], TraceCapture] = {}
    for capture in small:
        key = (capture.kind, capture.who)
        if key not in trace_captures or _preference(capture, incident) > _preference(
            trace_captures[key], incident
        ):
            trace_captures[key] = capture
    old = [
        key
        for key, capture in trace_captures.items()
        if _of_another_time(capture, incident, trace_captures.values())
    ]
    for key in old:
        del trace_captures[key]
    ordered = sorted(
        trace_captures.values(),
        # Those of the incident first, because the limit cuts the rest.
        key=lambda c: (_distance(c, incident) > timedelta(0), _natural(c.who), c.file.name),
    )
    left_out = _count_phrases(
        (
            sum(c.file.size > max_file_bytes and c.kind != "log" for c in captures),
            f"traces larger than {max_file_bytes:,} bytes",
        ),
        (sum(c.file.size == 0 and c.kind != "flight_recorder" for c in captures), "empty traces"),
        (max(0, len(ordered) - max_files), f"traces beyond the first {max_files:,}"),
        (
            # 1 once the listing has reached its limit.
            len(every) // MOST_LISTED,
            f"or more files beyond the first {MOST_LISTED:,}, not looked at",
        ),
    )
    not_needed = _count_phrases(
        (len(small) - len(trace_captures) - len(old), "other captures of the same ranks"),
        (len(old), "dumps of ranks that left none in the incident"),
        (len(every) - len(captures), "not traces by their names"),
    )
    chosen = tuple(ordered[:max_files])
    return Choice(chosen, left_out, not_needed, _outside(chosen, incident))


def _fits(capture: TraceCapture, max_file_bytes: int) -> bool:
    """A log may be long: its end is taken. An empty dump tells that a rank could not write its
    own."""
    size = capture.file.size
    return (size <= max_file_bytes or capture.kind == "log") and (
        size > 0 or capture.kind == "flight_recorder"
    )


def _of_another_time(
    capture: TraceCapture, incident: Window, beside: Iterable[TraceCapture]
) -> bool:
    """A dump from before, beside dumps of the incident: its rank did not write one this time, and
    that tells."""
    if capture.kind not in ("flight_recorder", "stacks") or _distance(
        capture, incident
    ) == timedelta(0):
        return False
    return any(c.kind == capture.kind and _distance(c, incident) == timedelta(0) for c in beside)


def _preference(capture: TraceCapture, incident: Window) -> tuple[int, bool, datetime, str]:
    # a flight recorder's pickle holds the stack frames, its JSON does not
    with_frames = not (capture.kind == "flight_recorder" and capture.file.name.endswith(".json"))
    # In steps of `GRACE`: within one step, stack frames and then the later time decide.
    return -(_distance(capture, incident) // GRACE), with_frames, capture.taken, capture.file.name


def _distance(capture: TraceCapture, incident: Window) -> timedelta:
    """How far outside the window a capture was taken; zero inside."""
    if capture.taken < incident.start - _SKEW:
        return incident.start - capture.taken
    if capture.taken > incident.end + GRACE:
        return capture.taken - incident.end
    return timedelta(0)


def _outside(chosen: tuple[TraceCapture, ...], incident: Window) -> str | None:
    distances = [_distance(c, incident) for c in chosen]
    if not distances or min(distances) == timedelta(0):
        return None
    nearest = min(chosen, key=lambda c: _distance(c, incident))
    when = "before" if nearest.taken < incident.start else "after"
    return (
        "no capture lies in the incident window; the nearest was "
        f"taken {_words(min(distances))} {when} it"
    )


def _words(span: timedelta) -> str:
    hours = span.total_seconds() / 3600
    return (
        f"{hours / 24:.1f} days"
        if hours > 48
        else f"{hours:.1f} h"
        if hours >= 1
        else f"{hours * 60:.0f} min"
    )


def _natural(text: str) -> tuple[str, int]:
    # Rank 10 comes after rank 9.
    number = re.search(r"\d+$", text)
    return (text[: number.start()], int(number[0])) if number else (text, -1)


def _count_phrases(*counts: tuple[int, str]) -> tuple[str, ...]:
    return tuple(f"{count:,} {why}" for count, why in counts if count > 0)
