"""Alerts, onsets, changes and log lines of one investigation on one axis, as positions in percent
of its width.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Literal

import polars as pl

from faultline.analysis.case.folder import Case
from faultline.analysis.logs.lines import ERROR_LEVELS
from faultline.analysis.vocabulary import Diagnosis, Finding, Window
from faultline.analysis.wording.names import change_name, signal_name, subject_name
from faultline.bot.web.text import from_alert, kind_words, offset

# How many log lines each service wrote over the timeline, and how many of them were errors by their
# level.

BUCKETS = 80
MAX_LANES = 4
LogCounts = pl.DataFrame
"""Columns time, service, error: one row per log line."""


@dataclass(frozen=True)
class Bar:
    """One bucket: its place on the axis in percent; all lines and error lines as shares of the
    fullest bucket."""

    x: float
    width: float
    lines: int
    errors: int
    all_high: float
    errors_high: float


@dataclass(frozen=True)
class Lane:
    """One service."""

    service: str
    lines: int
    errors: int
    bars: tuple[Bar, ...]

    @property
    def all_path(self) -> str:
        """Bars of all lines as one SVG path, in a box of 100 by 100."""
        return "".join(_bar(bar, bar.all_high) for bar in self.bars)

    @property
    def error_path(self) -> str:
        """Bars of the error lines."""
        return "".join(_bar(bar, bar.errors_high) for bar in self.bars if bar.errors)


def _bar(bar: Bar, high: float) -> str:
    return f"M{bar.x:g} 100v-{100 * high:.4g}h{bar.width:g}v{100 * high:.4g}z"


def read_log_counts(case: Case) -> LogCounts:
    """The columns that are needed; of a Parquet file nothing else is read. Raises EvidenceError."""
    file = case.path / "logs.parquet"
    if file.exists():
        try:
            return _counts(pl.read_parquet(file, columns=["time", "service", "level"]))
        except (pl.exceptions.PolarsError, OSError):
            # The file lacks a level or has other types, so read it like every other table.
            pass
    return _counts(case.logs)


def _counts(rows: pl.DataFrame) -> LogCounts:
    error = (
        pl.col("level")
        .cast(pl.String)
        .str.to_uppercase()
        .is_in(ERROR_LEVELS)
        .fill_null(value=False)
    )
    return rows.select(
        pl.col("time").dt.replace_time_zone(None).dt.cast_time_unit("us"),
        pl.col("service").cast(pl.String).fill_null(""),
        error.alias("error"),
    )


def lanes_of(
    logs: LogCounts, start: datetime, end: datetime, about: Sequence[str]
) -> tuple[Lane, ...]:
    """A lane for the services with most error lines; those that findings are `about` first."""
    first, last = start.replace(tzinfo=None), end.replace(tzinfo=None)
    rows = logs.filter((pl.col("time") >= first) & (pl.col("time") < last))
    if not rows.height:
        return ()
    # A bucket without width would divide by zero.
    width = max((last - first) / BUCKETS, timedelta(microseconds=1))
    bucket = (
        (pl.col("time") - first).dt.total_microseconds() // (width // timedelta(microseconds=1))
    ).alias("bucket")
    counts = rows.group_by("service", bucket).agg(
        pl.len().alias("lines"), pl.col("error").sum().alias("errors")
    )
    is_about = pl.col("service").is_in(list(dict.fromkeys(about)))
    totals = (
        counts.group_by("service")
        .agg(pl.col("lines").sum(), pl.col("errors").sum())
        .sort(is_about, "errors", "lines", "service", descending=[True, True, True, False])
    )
    return tuple(
        _lane(service, lines, errors, counts.filter(pl.col("service") == service).sort("bucket"))
        for service, lines, errors in totals.head(MAX_LANES).iter_rows()
    )


def _lane(service: str, lines: int, errors: int, counts: pl.DataFrame) -> Lane:
    most = max(counts["lines"].to_list())
    share = 100 / BUCKETS
    bars = tuple(
        Bar(
            round(share * b, 3),
            # Leave a gap between two bars.
            round(share * 0.85, 3),
            n,
            e,
            round(n / most, 3),
            round(e / most, 3),
        )
        for b, n, e in counts.select("bucket", "lines", "errors").iter_rows()
    )
    return Lane(service, lines, errors, bars)


EventKind = Literal["alert", "onset", "change"]

MAX_ONSETS = 12
MAX_CHANGES = 8
MAX_JOINED = 8
PAD = 0.03
"""Share of the axis left free at both ends, so that a mark is never cut."""
STEPS_S = (
    1,
    5,
    10,
    15,
    30,
    60,
    120,
    300,
    600,
    900,
    1800,
    3600,
    7200,
    10800,
    21600,
    43200,
    86400,
    172800,
    604800,
)
TICKS = 5
"""Ticks at most. More do not fit a phone."""


@dataclass(frozen=True)
class Change:
    """One row of the table of changes, as shown."""

    time: datetime
    service: str
    kind: str
    id: str
    title: str
    author: str | None = None
    link: str | None = None


@dataclass(frozen=True)
class Joined:
    """An alert of the same incident that joined the investigation, and why."""

    time: datetime
    title: str
    why: str


@dataclass(frozen=True)
class TimelineEvent:
    """One row of the timeline. `x` and `since_x` (where an uncertain onset may have begun) are
    percent of the width."""

    kind: EventKind
    time: datetime
    offset: str
    """The distance from the alert, for a column."""
    distance: str
    """The same in words."""
    label: str
    note: str
    x: float
    since_x: float
    finding: str | None = None
    link: str | None = None
    decisive: bool = False
    clipped: bool = False


@dataclass(frozen=True)
class Tick:
    """A mark of the axis."""

    x: float
    label: str


@dataclass(frozen=True)
class Timeline:
    """All rows by time, the axis they share, and how many rows were left out."""

    start: datetime
    end: datetime
    events: tuple[TimelineEvent, ...]
    lanes: tuple[Lane, ...]
    ticks: tuple[Tick, ...]
    alert_x: float
    incident_x: float
    incident_width: float
    left_out: int


@dataclass(frozen=True)
class _Axis:
    start: datetime
    end: datetime

    def x(self, moment: datetime) -> float:
        share = (moment - self.start) / (self.end - self.start)
        # A mark beyond the axis sits at its end, and `clips` says so.
        return round(100 * min(1.0, max(0.0, share)), 3)

    def clips(self, moment: datetime) -> bool:
        return not self.start <= moment <= self.end


def build_timeline(
    alert_at: datetime,
    title: str,
    incident: Window,
    diagnosis: Diagnosis,
    changes: Sequence[Change],
    joined: Sequence[Joined] = (),
    logs: LogCounts | None = None,
) -> Timeline:
    """The timeline of a diagnosed case. Strongest onsets and the changes nearest to the alert come
    first."""
    decisive = set(diagnosis.causes[0].findings) if diagnosis.causes else set()
    blamed = {c.change for c in diagnosis.causes[:1] if c.change}
    onsets = _strongest(diagnosis.findings, decisive)
    # A blamed change stays, however far from the alert it is.
    near = sorted(changes, key=lambda c: (c.id not in blamed, abs(c.time - alert_at)))[:MAX_CHANGES]
    also = sorted(joined, key=lambda j: j.time)[:MAX_JOINED]
    onset_times = [t for f in onsets if (t := f.onset)]
    axis = _axis(
        [alert_at, *onset_times], [*(c.time for c in near), *(j.time for j in also)], incident
    )
    events = [
        _alert(alert_at, title, axis),
        *(_joined(j, axis, alert_at) for j in also),
        *(_onset(f, axis, alert_at, f.id in decisive) for f in onsets),
        *(_change(c, axis, alert_at, diagnosis.findings, c.id in blamed) for c in near),
    ]
    shown = len(onsets) + len(near) + len(also)
    total = sum(_is_onset(f) for f in diagnosis.findings) + len(changes) + len(joined)
    start, end = axis.x(incident.start), axis.x(incident.end)
    return Timeline(
        start=axis.start,
        end=axis.end,
        lanes=lanes_of(logs, axis.start, axis.end, [f.subject for f in diagnosis.findings])
        if logs is not None
        else (),
        # At one moment a change comes before an onset, and both before an alert.
        events=tuple(sorted(events, key=lambda e: (e.time, e.kind != "change", e.kind != "onset"))),
        ticks=_ticks(axis),
        alert_x=axis.x(alert_at),
        incident_x=start,
        incident_width=round(end - start, 3),
        left_out=total - shown,
    )


def _is_onset(finding: Finding) -> bool:
    return finding.onset is not None and not is_change(finding)


def is_change(finding: Finding) -> bool:
    """Whether the finding is about a row of the table of changes."""
    return finding.series.get("table") == "changes"


def _strongest(findings: Iterable[Finding], decisive: set[str]) -> list[Finding]:
    matching_findings = [f for f in findings if _is_onset(f)]
    return sorted(matching_findings, key=lambda f: (f.id not in decisive, -f.strength))[:MAX_ONSETS]


def _axis(always: list[datetime], extra_times: list[datetime], incident: Window) -> _Axis:
    """Covers alert and onsets; changes and other alerts up to one such length away: an old deploy
    must not squash the rest."""
    first, last = min([*always, incident.start]), max(always)
    last = max(last, min(incident.end, last + (last - first) / 2))
    reach = max(last - first, timedelta(minutes=1))
    close = [c for c in extra_times if first - reach <= c <= last + reach]
    first, last = min([first, *close]), max([last, *close])
    pad = max((last - first) * PAD, timedelta(seconds=1))
    return _Axis(first - pad, last + pad)


def _alert(at: datetime, title: str, axis: _Axis) -> TimelineEvent:
    x = axis.x(at)
    return TimelineEvent("alert", at, "0 s", from_alert(at, at), "Alert fired", title, x, x)


def _joined(alert: Joined, axis: _Axis, alert_at: datetime) -> TimelineEvent:
    x = axis.x(alert.time)
    note = f"{alert.title} ({alert.why})" if alert.why else alert.title
    clipped = axis.clips(alert.time)
    away = offset(alert.time, alert_at), from_alert(alert.time, alert_at)
    return TimelineEvent("alert", alert.time, *away, "Also fired", note, x, x, clipped=clipped)


def _onset(finding: Finding, axis: _Axis, alert_at: datetime, decisive: bool) -> TimelineEvent:
    assert finding.onset is not None
    since = finding.onset - timedelta(seconds=finding.onset_uncertainty_s or 0)
    if finding.signal and finding.series.get("table") == "metrics":
        what_moved = signal_name(finding.signal)
    else:
        what_moved = kind_words(finding.kind)
    return TimelineEvent(
        kind="onset",
        time=finding.onset,
        offset=offset(finding.onset, alert_at),
        distance=from_alert(finding.onset, alert_at),
        label=subject_name(finding.subject),
        note=what_moved,
        x=axis.x(finding.onset),
        since_x=axis.x(since),
        finding=finding.id,
        decisive=decisive,
        clipped=axis.clips(finding.onset),
    )


def _change(
    change: Change, axis: _Axis, alert_at: datetime, findings: Sequence[Finding], blamed: bool
) -> TimelineEvent:
    about = next((f.id for f in findings if is_change(f) and f.series.get("id") == change.id), None)
    x = axis.x(change.time)
    return TimelineEvent(
        kind="change",
        time=change.time,
        offset=offset(change.time, alert_at),
        distance=from_alert(change.time, alert_at),
        label=f"{change.service} {change.kind}".strip(),
        note=change.title or change_name(change.id),
        x=x,
        since_x=x,
        finding=about,
        link=change.link,
        decisive=blamed,
        clipped=axis.clips(change.time),
    )


def _ticks(axis: _Axis) -> tuple[Tick, ...]:
    length = (axis.end - axis.start).total_seconds()
    longest = STEPS_S[-1]
    # Where even the longest step gives too many ticks, take a multiple of it.
    step = next(
        (s for s in STEPS_S if length / s <= TICKS), longest * math.ceil(length / longest / TICKS)
    )
    form = "%H:%M:%S" if step < 60 else "%H:%M" if step < 86400 else "%-d %b"
    # Round up to the first whole step on the axis.
    first = -(-axis.start.timestamp() // step) * step
    moments = [
        datetime.fromtimestamp(first + i * step, UTC) for i in range(int(length // step) + 1)
    ]
    return tuple(Tick(axis.x(m), m.strftime(form)) for m in moments if m <= axis.end)
