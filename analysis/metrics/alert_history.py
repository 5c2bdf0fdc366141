"""What the alert's own past says: a monitor that flaps, a threshold in the normal range, a signal
that moves as always, that stopped, or that came back.

None of these accuses a service; they say why an alert fired although nothing is wrong, or why
nothing can be seen.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import numpy as np
import polars as pl

from analysis.case.folder import Case
from analysis.case.windows import metric_windows
from analysis.kinds.finding_details import AlertHistoryDetails
from analysis.kinds.finding_kinds import ALERT_FLAPPING, SIGNAL_STOPPED, USUAL_MOVE
from analysis.metrics.alert_threshold import signal_points, threshold_findings
from analysis.metrics.gpu_signals import SIGNALS as GPU_SIGNALS
from analysis.metrics.recovery import recoveries
from analysis.metrics.shifts import MIN_BASELINE_POINTS
from analysis.metrics.usual_moves import usual_moves
from analysis.vocabulary import Finding
from analysis.wording.phrases import counted, number, plain, rounded

FLAPPING, STOPPED, USUAL = ALERT_FLAPPING.name, SIGNAL_STOPPED.name, USUAL_MOVE.name
FIRING = frozenset({"alert", "alarm", "firing", "alerting", "triggered", "critical", "active"})
CALM = frozenset(
    {"ok", "resolved", "normal", "recovered", "inactive", "warn", "warning", "pending", "no data"}
)
"""Words of Datadog, CloudWatch, Grafana, Prometheus, Alertmanager, PagerDuty, in lower case; others
change nothing."""
LOOKBACK = timedelta(hours=24)
FLAPS = 3
"""So many alarms before this one that went by themselves make it a flapping one."""
TRANSIENT_S = 900.0
"""And each lasted at most so long: the longest pause of PagerDuty's "Auto-Pause Incident
Notifications" for alerts that resolve by themselves."""
LASTS = 2.0
"""An alarm that lasts twice as long as the longest of those is no flap."""
MOST_ROWS = 5000
NAME_LABELS = (
    "alarm_name",
    "alertname",
    "monitor_name",
    "alert_name",
    "monitor",
    "rulename",
    "rule_name",
)
SHORTEST_NAME = 8
"""A monitor's name of fewer characters is not looked for inside the alert's title."""
STOPPED_STEPS, STOPPED_S = 4, 180.0
"""A series stopped when so many of its usual steps, and so long, are missing at the end, while
others go on."""
FLAP_STRENGTH, STOPPED_STRENGTH = 0.6, 0.5
SERIES_GONE = "Look at what sends this series: its exporter, its scrape, or the metric's name."
SERVICE_GONE = "Look whether the service runs at all, and at what collects its metrics."


def alert_history(case: Case, findings: Sequence[Finding] = ()) -> list[Finding]:
    """Findings about the alert itself, given those about its signals; none where all behaved as it
    should."""
    own = [*threshold_findings(case), *_flapping(case), *_stopped(case)]
    return [*own, *_usual_move(case, findings), *recoveries(case, findings)]


@dataclass(frozen=True)
class Alarm:
    """One time that the monitor fired: from when, and how long; None while it still does."""

    start: datetime
    seconds: float | None


def alarms_of(case: Case) -> list[Alarm]:
    """When the alerting monitor fired in the 24 hours before the window's end, in order."""
    end = case.scope.incident.end
    states = _own_states(case).filter(
        pl.lit(end) - pl.col("since") <= LOOKBACK, pl.col("since") <= end
    )
    alarms: list[Alarm] = []
    began: datetime | None = None
    for state, since in states.select("state", "since").iter_rows():
        if state in FIRING and began is None:
            began = since
        elif state in CALM and began is not None:
            alarms.append(Alarm(began, (since - began).total_seconds()))
            began = None
    return [*alarms, Alarm(began, None)] if began is not None else alarms


def _own_states(case: Case) -> pl.DataFrame:
    """State changes of the alerting monitor, in order; of one service where the monitor has
    several."""
    rows = case.monitors
    name = _own_monitor(case) if rows.height else None
    if name is None:
        return rows.clear()
    rows = rows.filter(pl.col("monitor") == name)
    if case.alert.service is not None and (rows["service"] == case.alert.service).any():
        rows = rows.filter(pl.col("service") == case.alert.service)
    state = pl.col("state").str.strip_chars().str.to_lowercase().str.replace_all("_", " ")
    return (
        rows.with_columns(state)
        .sort("since", "state")
        .unique(["since", "state"], maintain_order=True)
        .tail(MOST_ROWS)
    )


def _own_monitor(case: Case) -> str | None:
    """The monitor by a label of the alert that names it, else the longest name that the alert's
    title holds."""
    alert = case.alert
    named = {_folded(alert.labels[k]) for k in NAME_LABELS if alert.labels.get(k)} | {
        _folded(alert.title)
    }
    names = sorted(case.monitors["monitor"].unique().to_list(), key=lambda n: (-len(n), n))
    exact = next((n for n in names if _folded(n) in named), None)
    title = f" {_folded(alert.title)} "
    return exact or next(
        (n for n in names if len(n) >= SHORTEST_NAME and f" {_folded(n)} " in title), None
    )


def _folded(text: str) -> str:
    return " ".join(re.sub(r"[\[\]():,]", " ", text[:1000]).casefold().split())


def _flapping(case: Case) -> list[Finding]:
    alarms = alarms_of(case)
    over = [a for a in alarms if a.seconds is not None]
    if len(over) < FLAPS:
        return []
    longest = max(a.seconds or 0.0 for a in over)
    open_since = alarms[-1].start if alarms[-1].seconds is None else None
    end = case.scope.incident.end
    if longest > TRANSIENT_S or (
        open_since and (end - open_since).total_seconds() > LASTS * max(longest, 60.0)
    ):
        return []
    hours = rounded(max((end - over[0].start).total_seconds() / 3600, 0.1), 2)
    minutes = rounded(max(longest / 60, 0.1), 2)
    fires, back = len(alarms), len(over)
    usual = float(np.median([a.seconds or 0.0 for a in over])) / 60
    wait = float(np.ceil(longest / 60) + 1)
    said = (
        f"This monitor went off {counted(fires, 'time')} in {number(hours, 2)} h and came back by "
        "itself "
    )
    said += (
        f"{'each time' if back == fires else counted(back, 'time')}, after at most "
        f"{number(minutes, 2)} min"
    )
    return [
        Finding(
            id="",
            kind=FLAPPING,
            subject=case.alert.service or plain(case.alert.title),
            signal=case.alert.signal,
            onset=over[0].start.astimezone(UTC),
            strength=FLAP_STRENGTH,
            sentence=said + ".",
            numbers={
                "times": float(fires),
                "times_back": float(back),
                "hours": hours,
                "minutes": minutes,
            },
            evidence=case.evidence_ids("monitors"),
            series={"table": "monitors", "service": case.alert.service or ""},
            details=AlertHistoryDetails(
                fix=f"Let the monitor wait for {number(wait)} min before it fires, or widen its "
                "threshold.",
                usual_minutes=rounded(usual, 3),
            ),
        )
    ]


def _stopped(case: Case) -> list[Finding]:
    """The alerting signal's series ended, while other series of the case go on."""
    points, alert = signal_points(case), case.alert
    if points is None or alert.signal in GPU_SIGNALS:
        return []
    times = np.concatenate([points.before[0], points.now[0]])
    if len(times) < MIN_BASELINE_POINTS:
        return []
    last, step = float(times.max()), float(np.median(np.diff(np.sort(times))))
    late = max(STOPPED_STEPS * step, STOPPED_S)
    newest = _newest_of_others(case)
    going_on = [s for s, at in newest if at - last > late]
    if not going_on:
        return []
    own = sum(service == alert.service for service in going_on)
    minutes = rounded((max(at for _, at in newest) - last) / 60, 3)
    said = f"{plain(alert.service or '')} {plain(alert.signal or '')} stopped coming: "
    said += f"no point for the last {number(minutes, 3)} min, "
    others = f"{own} other series of the service {'goes' if own == 1 else 'go'} on"
    return [
        Finding(
            id="",
            kind=STOPPED,
            subject=alert.service or "",
            signal=alert.signal,
            onset=datetime.fromtimestamp(last, UTC),
            onset_uncertainty_s=round(step, 3),
            strength=STOPPED_STRENGTH,
            sentence=said
            + (f"while {others}." if own else "and nothing of the service comes any more."),
            numbers={"minutes": minutes} | ({"other_series": float(own)} if own else {}),
            evidence=case.evidence_ids("metrics"),
            series={
                "table": "metrics",
                "service": alert.service or "",
                "signal": alert.signal or "",
            },
            details=AlertHistoryDetails(
                others_of_service=own, fix=SERIES_GONE if own else SERVICE_GONE
            ),
        )
    ]


def _usual_move(case: Case, findings: Sequence[Finding]) -> list[Finding]:
    """The alerting signal moves as it did several times in the baseline."""
    alert = case.alert
    about = [f for f in findings if f.subject == alert.service and f.signal == alert.signal]
    for key, move in usual_moves(case, about).items():
        moved = next(f for f in about if (f.id or f.sentence) == key)
        hours, minutes = (
            rounded(move.baseline_s / 3600, 2),
            rounded(max(move.longest_s / 60, 0.1), 2),
        )
        said = f"{plain(moved.subject)} {plain(moved.signal or '')} went as far "
        said += (
            f"{counted(move.times, 'time')} in the {number(hours, 2)} h before, for at most "
            f"{number(minutes, 2)} min"
        )
        fix = (
            f"Let the monitor wait for {number(float(np.ceil(move.longest_s / 60) + 1))} min "
            "before it fires."
        )
        numbers = {"times": float(move.times), "hours": hours, "minutes": minutes}
        usual = {"id": "", "kind": USUAL, "sentence": said + ".", "numbers": numbers}
        return [moved.model_copy(update={**usual, "details": AlertHistoryDetails(fix=fix)})]
    return []


def _newest_of_others(case: Case) -> Sequence[tuple[str | None, float]]:
    """Service and newest point (s since 1970) of every other series in the window."""
    alert, windows = case.alert, metric_windows(case)
    rows = case.metrics.filter(
        windows.in_search("time"),
        (pl.col("service") != alert.service).fill_null(value=True)
        | (pl.col("signal") != alert.signal),
    )
    newest = rows.group_by("service", "signal").agg(pl.col("time").max().dt.epoch("ns"))
    return [
        (s, at / 1e9)
        for s, at in newest.sort("service", "signal").select("service", "time").iter_rows()
    ]
