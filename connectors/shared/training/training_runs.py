"""Runs of training jobs that a tracker keeps (Weights & Biases, MLflow), as tables, changes and a
history file.

Names of fields and metrics are wandb's: 0.31.0, wandb/apis/public/runs.py. Rows of a history hold
NaN and Infinity as text.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import polars as pl

from faultline.analysis.case.tables import CHANGES, METRICS, MONITORS, empty
from faultline.analysis.secrets.redaction import masked
from faultline.analysis.traces.job_logs.metrics import KEYS
from faultline.analysis.training.run_states import RUN_MONITOR
from faultline.analysis.vocabulary import Window
from faultline.connectors.shared.rows.collection_builder import ChangeRow, rows_table
from faultline.connectors.shared.vendor_text import short

TIME_KEY, STEP_KEY = "_timestamp", "_step"
SIGNAL_OF = {
    "loss": "loss",
    "grad_norm": "grad_norm",
    "throughput": "throughput",
    "mfu_percent": "mfu",
}
STEP_TIME = "step_time"
"""Signals as Prometheus's are called; step times in seconds."""
LEARNING_RATE = re.compile(
    r"(^|[/_.])(lr|learning_rate)([/_.-]\d{1,3}|[/_.]group_?\d{1,3})?$", re.I
)
GPU = re.compile(r"(?:system\.)?gpu\.(\d{1,3})\.(\w{1,40})(?:/l:(.{1,80}))?$")
SYSTEM = re.compile(
    r"(?:system\.)?([a-zA-Z][\w.]{0,60}?|disk\..{1,100}\.usagePercent)(?:/l:(.{1,80}))?$"
)
GPU_SIGNALS: Mapping[str, tuple[str, str]] = {
    "gpu": ("gpu_utilization_percent", "percent"),
    "memoryAllocated": ("gpu_memory_percent", "percent"),
    "memoryAllocatedBytes": ("gpu_memory_used_bytes", "bytes"),
    "temp": ("gpu_temperature_c", "°C"),
    "powerWatts": ("gpu_power_w", "W"),
    "smClock": ("gpu_sm_clock_mhz", "MHz"),
    "correctedMemoryErrors": ("gpu_ecc_sbe", "errors"),
    "uncorrectedMemoryErrors": ("gpu_ecc_dbe", "errors"),
}
"""By wandb's name (docs.wandb.ai/ref/system-metrics); the names of
faultline.analysis.metrics.series where it has one. `memory`, the share of time in which memory
was accessed, is left out, as are a process's copies of its GPU's metrics."""
SYSTEM_SIGNALS: Mapping[str, tuple[str, str]] = {
    "cpu": ("cpu_percent", "percent"),
    "memory_percent": ("memory_percent", "percent"),
    "proc.memory.rssMB": ("process_memory_mb", "MB"),
    "disk./.usagePercent": ("disk_used_percent", "percent"),
}
MOST_NAMED = 3
"""Changed settings that a title names."""
MOST_CHANGED, MOST_KEYS, MOST_DEPTH = 40, 5_000, 12
MOST_VALUE, MOST_SEARCHED = 120, 4096
INTERNAL = frozenset({"_wandb", "wandb_version"})
"""What wandb itself keeps beside the configuration (runs.py, WANDB_INTERNAL_KEYS)."""
_SECRET_KEY = re.compile(
    r"(pass(word|wd|phrase)?|secret|credentials?|auth"
    r"|(api|access|secret|private|signing|ssh|wandb)_?key|(^|[_.-])token)"
    r"($|[_.-])",
    re.I,
)
_BARE_KEY = re.compile(r"\b[0-9a-f]{40}\b")
_REVISION = re.compile(r"sha|commit|rev|hash|version", re.I)
"""What looks like an old API key of wandb's is a commit where the key's name says so."""
HIDDEN = "[hidden]"
SILENT = timedelta(minutes=5)
"""A running run sends a heartbeat every half minute; after five minutes without, wandb calls it
crashed."""
LAUNCH_SPAN = timedelta(minutes=5)
"""Runs of a group that began within that time of each other are one launch of the job."""


class TrainingRun(msgspec.Struct):
    """A run, in wandb's words. `name` is its id, `displayName` what people call it."""

    name: str
    state: str = ""
    displayName: str | None = None
    group: str | None = None
    commit: str | None = None
    createdAt: str | None = None
    heartbeatAt: str | None = None
    config: str | None = None

    @property
    def label(self) -> str:
        """What people call it, fit for a line."""
        return short(self.displayName or self.name, 60)

    @property
    def created(self) -> datetime | None:
        """When it began."""
        return moment(self.createdAt)

    @property
    def heartbeat(self) -> datetime | None:
        """When it was last heard of."""
        return moment(self.heartbeatAt)

    def state_at(self, until: datetime) -> str:
        """wandb's word, or "silent" for one that says it is running and is not heard of."""
        quiet = self.heartbeat is not None and until - self.heartbeat > SILENT
        return "silent" if self.state == "running" and quiet else short(self.state, 20) or "unknown"

    def launched_with(self, other: TrainingRun) -> bool:
        """Whether both began at about the same time."""
        a, b = self.created, other.created
        return a is not None and b is not None and abs(a - b) <= LAUNCH_SPAN

    def ran_before(self, other: TrainingRun) -> bool:
        """Whether it began before, and was not launched with it as one of its group."""
        a, b = self.created, other.created
        if a is None or b is None or a >= b:
            return False
        return not (self.group and self.launched_with(other))


def moment(text: str | None) -> datetime | None:
    """A time of wandb's; without a zone it is UTC. None where it cannot be read, or is not of our
    times."""
    try:
        at = datetime.fromisoformat((text or "").strip())
    except ValueError:
        return None
    if not 2000 <= at.year < 2200:
        return None
    if at.tzinfo is None:
        at = at.replace(tzinfo=UTC)
    return at.astimezone(UTC)


def measure_keys(keys: Iterable[str]) -> list[str]:
    """Those that are known to mean something, the plainest name of each measure first."""
    # Sort: a tracker lists keys in any order, and each run must read the same ones.
    named = sorted(str(key) for key in keys)
    measures = [key for key in KEYS if key in named]
    rates = [key for key in named if key not in measures and LEARNING_RATE.search(key)]
    return measures + rates


def number(value: Any) -> float | None:
    """A value of a row: numbers, and what wandb writes as text."""
    if isinstance(value, str) and value in ("NaN", "Infinity", "-Infinity"):
        return float(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return float(value)
    except OverflowError:
        return None


def rows_by_step(answers: Iterable[Any]) -> list[dict[str, float]]:
    """The samples of all keys joined to one row per step; what is no row or no number is passed
    over."""
    rows: dict[int, dict[str, float]] = {}
    for answer in answers:
        for row in answer if isinstance(answer, list) else ():
            values = _numbers(row)
            step = values.get(STEP_KEY)
            # A float holds whole numbers exactly below 2**53.
            if step is not None and 0 <= step < 2**53:
                rows.setdefault(int(step), {}).update(values)
    return [rows[step] for step in sorted(rows)]


def _numbers(row: Any) -> dict[str, float]:
    if not isinstance(row, dict):
        return {}
    values = {}
    for key, raw in row.items():
        value = number(raw)
        if value is not None:
            values[key] = value
    return values


def history_lines(rows: Sequence[Mapping[str, float]]) -> bytes:
    """The history as JSON lines, for the reader of metrics that a job wrote."""
    return b"".join(json.dumps(_counted(row), sort_keys=True).encode() + b"\n" for row in rows)


def _counted(row: Mapping[str, float]) -> dict[str, float]:
    return {k: int(v) if k == STEP_KEY else v for k, v in row.items()}


def training_rows(
    rows: Iterable[Mapping[str, float]], job: str, windows: Sequence[Window]
) -> pl.DataFrame:
    """The metrics table of a history: the first key of each measure that a row has."""
    metric_rows: list[_MetricRow] = []
    for row in rows:
        at = _within(row.get(TIME_KEY), windows)
        if at is None:
            continue
        for signal, value, unit in _measures(row):
            metric_rows.append((at, job, signal, _finite(value), unit, None))
    return _table(metric_rows)


def _measures(row: Mapping[str, float]) -> Iterator[tuple[str, float, str | None]]:
    measures: set[str] = set()
    for key, (measure, factor) in KEYS.items():
        # A second key of one measure would put two series into one.
        if key not in row or measure in measures:
            continue
        measures.add(measure)
        if measure == "step_ms":
            yield STEP_TIME, row[key] * factor / 1000, "s"
        elif measure in SIGNAL_OF:
            unit = "percent" if measure == "mfu_percent" else None
            yield SIGNAL_OF[measure], row[key] * factor, unit
    for key, value in row.items():
        if LEARNING_RATE.search(key):
            yield "learning_rate", value, None
            break


def system_rows(
    rows: Iterable[Mapping[str, Any]], job: str, host: str, windows: Sequence[Window]
) -> pl.DataFrame:
    """The metrics table of system metrics; a GPU's rows are filed under `<job>/gpu<n>`, and say
    their host."""
    metric_rows: list[_MetricRow] = []
    for row in rows:
        at = _within(number(row.get(TIME_KEY)), windows)
        if at is None:
            continue
        for key, raw in row.items():
            value = number(raw)
            measure = _system_measure(key, job, host) if value is not None else None
            if measure is not None:
                service, (signal, unit), labels = measure
                metric_rows.append((at, service, signal, _finite(value), unit, labels))
    return _table(metric_rows)


def _system_measure(key: str, job: str, host: str) -> tuple[str, tuple[str, str], str] | None:
    """Whose a system metric is, its signal and unit, and labels; None for one that is not kept."""
    gpu = GPU.match(key)
    if gpu is not None:
        if gpu[2] not in GPU_SIGNALS:
            return None
        where = short(gpu[3] or host, 60)
        labels = json.dumps({"gpu": gpu[1], "host": where}, sort_keys=True)
        return f"{job}/gpu{gpu[1]}", GPU_SIGNALS[gpu[2]], labels
    other = SYSTEM.match(key)
    if other is None or other[1] not in SYSTEM_SIGNALS:
        return None
    return job, SYSTEM_SIGNALS[other[1]], json.dumps({"host": short(other[2] or host, 60)})


def _within(seconds: float | None, windows: Sequence[Window]) -> int | None:
    """The time in ns, where it is in a window; windows include their end."""
    if seconds is None or not 0 <= seconds < 9e9:
        return None
    inside = any(w.start.timestamp() <= seconds <= w.end.timestamp() for w in windows)
    # Round to microseconds: a float of seconds holds no nanoseconds.
    return round(seconds * 1e6) * 1000 if inside else None


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


_MetricRow = tuple[int, str, str, float | None, str | None, str | None]


def _table(rows: Sequence[_MetricRow]) -> pl.DataFrame:
    if not rows:
        return empty("metrics")
    raw = pl.DataFrame(rows, schema={**METRICS.columns, "time": pl.Int64()}, orient="row")
    return raw.with_columns(pl.col("time").cast(METRICS.columns["time"]))


@dataclass(frozen=True)
class ChangedConfig:
    """What differs between two runs' configurations: key -> (before, after) as JSON text, absent as
    None."""

    values: Mapping[str, tuple[str | None, str | None]]

    @property
    def diff(self) -> str:
        """One line per value taken out and put in, secrets hidden, at most MOST_CHANGED keys."""
        lines = []
        for key in list(self.values)[:MOST_CHANGED]:
            before, after = (_shown(key, value) for value in self.values[key])
            if before is not None:
                lines.append(f"-{key}: {before}")
            if after is not None:
                lines.append(f"+{key}: {after}")
        more = len(self.values) - MOST_CHANGED
        if more > 0:
            lines.append(f" and {more} more keys")
        return "\n".join(lines)


def changed_config(before: TrainingRun, after: TrainingRun) -> ChangedConfig:
    """The configurations side by side, nested keys joined by dots."""
    old, new = _flat(before.config), _flat(after.config)
    changed = {}
    for key in sorted(old.keys() | new.keys()):
        if old.get(key) != new.get(key):
            changed[key] = (old.get(key), new.get(key))
    return ChangedConfig(changed)


def _flat(config: str | None) -> dict[str, str]:
    """Key -> value as JSON text; {} for what is no configuration."""
    try:
        document = json.loads(config or "{}")
    except (ValueError, RecursionError):
        return {}
    if not isinstance(document, dict):
        return {}
    out: dict[str, str] = {}
    for key, setting in document.items():
        if key in INTERNAL:
            continue
        # wandb wraps each value beside its description: {"value": 3, "desc": null}.
        value = setting["value"] if isinstance(setting, dict) and "value" in setting else setting
        _flatten(str(key), value, out, 0)
    return out


def _flatten(key: str, value: Any, out: dict[str, str], depth: int) -> None:
    if isinstance(value, dict) and value and depth < MOST_DEPTH:
        for name, child in value.items():
            _flatten(f"{key}.{name}", child, out, depth + 1)
    # A configuration may hold any number of keys, so bound what is compared.
    elif len(out) < MOST_KEYS:
        out[short(key, 160)] = json.dumps(value, sort_keys=True)


def _shown(key: str, value: str | None) -> str | None:
    if value is None:
        return None
    looks_like_a_key = _BARE_KEY.search(value) is not None and not _REVISION.search(key)
    if looks_like_a_key or _SECRET_KEY.search(key):
        return HIDDEN
    # Bound what the patterns of secrets have to read.
    searched = value[:MOST_SEARCHED]
    return HIDDEN if masked(searched) != searched else short(value, MOST_VALUE)


def changes_table(
    before: TrainingRun, after: TrainingRun, job: str, link: str, vendor: str = "wandb"
) -> pl.DataFrame:
    """What this run does otherwise than the one before it, as changes at its beginning:
    configuration, and code."""
    at = after.created
    if at is None:
        return empty("changes")
    rows, changed = [], changed_config(before, after)
    if changed.values:
        named = ", ".join(list(changed.values)[:MOST_NAMED])
        if len(changed.values) > MOST_NAMED:
            named += ", …"
        title = f"run {after.label} started with other settings than {before.label}: {named}"
        identity = f"{vendor}:{after.name}"
        rows.append(ChangeRow(at, job, "config", identity, title, link=link, diff=changed.diff))
    if before.commit and after.commit and before.commit != after.commit:
        title = f"run {after.label} started from other code than {before.label}"
        diff = f"-commit: {short(before.commit, 60)}\n+commit: {short(after.commit, 60)}"
        commit = short(after.commit, 60)
        rows.append(ChangeRow(at, job, "deploy", commit, title, link=link, diff=diff))
    return rows_table(rows, CHANGES.columns) if rows else empty("changes")


def states_table(
    runs: Iterable[TrainingRun], job: str, until: datetime, links: Mapping[str, str]
) -> pl.DataFrame:
    """The monitors table of the runs' states, each since the run was last heard of; `links` by the
    run's id."""
    rows = [
        (f"{RUN_MONITOR}{run.label}", job, run.state_at(until), since, links.get(run.name))
        for run in runs
        if (since := run.heartbeat or run.created) is not None
    ]
    return pl.DataFrame(rows, schema=MONITORS.columns, orient="row")
