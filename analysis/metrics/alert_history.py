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

from faultline.analysis.case.folder import Case
from faultline.analysis.case.windows import metric_windows
from faultline.analysis.kinds.finding_details import AlertHistoryDetails
from faultline.analysis.kinds.finding_kinds import ALERT_FLAPPING, SIGNAL_STOPPED, USUAL_MOVE
from faultline.analysis.metrics.alert_threshold import signal_points, threshold_findings
from faultline.analysis.metrics.recovery import recoveries, usual_range
from faultline.analysis.metrics.series import SIGNALS as GPU_SIGNALS
from faultline.analysis.metrics.shifts import MIN_BASELINE_POINTS
from faultline.analysis.metrics.usual_moves import usual_moves
from faultline.analysis.vocabulary import Finding
from faultline.analysis.wording.names import signal_name, subject_name
from faultline.analysis.wording.phrases import counted, number, plain, rounded

FLAPPING, STOPPED, USUAL = ALERT_FLAPPING.name, SIGNAL_STOPPED.name, USUAL_MOVE.name
FIRING = frozenset({"alert", "alarm", "firing", "alerting", "triggered", "critical", "active"})
CALM = frozenset(
    {"ok", "resolved", "normal", "recovered", "inactive", "warn", "warning", "pending", "no data"}
)
"""Words of Datadog, CloudWatch, Grafana, Prometheus, Alertmanager, PagerDuty, in lower case; others
change nothing."""
LOOKBACK = timedelta(hours=24)
FLAPS = 3
"""This many alarms before it that ended by themselves make a monitor a flapping one."""
TRANSIENT_S = 900.0
"""None of them lasted longer: the longest pause of PagerDuty's "Auto-Pause Incident
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
"""A series stopped when this many of its usual steps, and this many seconds, are missing at the end
while others continue."""
FLAP_STRENGTH, STOPPED_STRENGTH = 0.6, 0.5
SERIES_GONE = "Look at what sends this series: its exporter, its scrape, or the metric's name."
SERVICE_GONE = "Look whether the service runs at all, and at what collects its metrics."


def alert_history(case: Case, findings: Sequence[Finding] = ()) -> list[Finding]:
    """Findings about the alert itself, given those about its signals; none where all behaved as it
    should."""
    stopped = _stopped(case)
    return [
        *threshold_findings(case),
        *_flapping(case),
        *stopped,
        *_usual_move(case, findings),
        *recoveries(case, findings),
        # Of a series that ended nobody knows where it stands.
        *([] if stopped else usual_range(case, findings)),
    ]


@dataclass(frozen=True)
class Alarm:
    """One time that the monitor fired: from when, and how long; None while it still does."""

    start: datetime
    seconds: float | None


def alarms_of(case: Case) -> list[Alarm]:
    """When the alerting monitor fired in the 24 hours before the window's end, in order."""
    end = case.scope.incident.end
    states = _monitor_states(case).filter(
        pl.lit(end) - pl.col("since") <= LOOKBACK, pl.col("since") <= end
    )
    alarms: list[Alarm] = []
    began: datetime | None = None
    # Other states change nothing, so a repeated alarm counts once.
    for state, since in states.select("state", "since").iter_rows():
        if state in FIRING and began is None:
            began = since
        elif state in CALM and began is not None:
            alarms.append(Alarm(began, (since - began).total_seconds()))
            began = None
    if began is not None:
        alarms.append(Alarm(began, None))
    return alarms


def _monitor_states(case: Case) -> pl.DataFrame:
    """State changes of the alerting monitor, in order; of one service where the monitor has
    several."""
    rows = case.monitors
    name = _alert_monitor(case) if rows.height else None
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


def _alert_monitor(case: Case) -> str | None:
    """The monitor by a label of the alert that names it, else the longest name that the alert's
    title holds."""
    alert = case.alert
    alert_names = {_folded(alert.title)}
    for label in NAME_LABELS:
        if alert.labels.get(label):
            alert_names.add(_folded(alert.labels[label]))
    # The longest first: "disk full" must not be taken for "disk full on db-1".
    monitors = case.monitors["monitor"].unique().to_list()
    monitors.sort(key=lambda name: (-len(name), name))
    for name in monitors:
        if _folded(name) in alert_names:
            return str(name)
    title = f" {_folded(alert.title)} "
    for name in monitors:
        if len(name) >= SHORTEST_NAME and f" {_folded(name)} " in title:
            return str(name)
    return None


def _folded(text: str) -> str:
    return " ".join(re.sub(r"[\[\]():,]", " ", text[:1000]).casefold().split())


def _flapping(case: Case) -> list[Finding]:
    alarms = alarms_of(case)
    lengths = [alarm.seconds for alarm in alarms if alarm.seconds is not None]
    if len(lengths) < FLAPS:
        return []
    longest, end = max(lengths), case.scope.incident.end
    if longest > TRANSIENT_S or _lasts_longer(alarms[-1], end, longest):
        return []
    # The one that still fires is the last, so the first one is over.
    first = alarms[0].start
    hours = rounded(max((end - first).total_seconds() / 3600, 0.1), 2)
    minutes = rounded(max(longest / 60, 0.1), 2)
    fires, back = len(alarms), len(lengths)
    # One minute more than the longest flap, so that none of them would have fired.
    wait = float(np.ceil(longest / 60) + 1)
    often = "each time" if back == fires else counted(back, "time")
    finding = Finding(
        id="",
        kind=FLAPPING,
        subject=case.alert.service or plain(case.alert.title),
        signal=case.alert.signal,
        onset=first.astimezone(UTC),
        strength=FLAP_STRENGTH,
        sentence=f"This monitor went off {counted(fires, 'time')} in {number(hours, 2)} h and came "
        f"back by itself {often}, after at most {number(minutes, 2)} min.",
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
            usual_minutes=rounded(float(np.median(lengths)) / 60, 3),
        ),
    )
    return [finding]


def _lasts_longer(alarm: Alarm, end: datetime, longest_s: float) -> bool:
    """Whether the monitor still fires, and has for longer than a flap."""
    if alarm.seconds is not None:
        return False
    return (end - alarm.start).total_seconds() > LASTS * max(longest_s, 60.0)


def _stopped(case: Case) -> list[Finding]:
    """The alerting signal's series ended, while other series of the case go on."""
    points, alert = signal_points(case), case.alert
    if points is None or alert.signal in GPU_SIGNALS:
        return []
    times = np.concatenate([points.before[0], points.now[0]])
    if len(times) < MIN_BASELINE_POINTS:
        return []
    last, step = float(times.max()), float(np.median(np.diff(np.sort(times))))
    # At least three minutes, because a scrape may be missed without anything being wrong.
    late = max(STOPPED_STEPS * step, STOPPED_S)
    newest = _newest_elsewhere(case)
    going_on = [service for service, at in newest if at - last > late]
    if not going_on:
        return []
    service, signal = alert.service or "", alert.signal or ""
    count = going_on.count(alert.service)
    minutes = rounded((max(at for _, at in newest) - last) / 60, 3)
    numbers = {"minutes": minutes}
    if count:
        numbers["other_series"] = float(count)
        verb = "goes" if count == 1 else "go"
        rest = f"while {count} other series of the service {verb} on"
    else:
        rest = "and the service sends nothing else either"
    finding = Finding(
        id="",
        kind=STOPPED,
        subject=service,
        signal=alert.signal,
        onset=datetime.fromtimestamp(last, UTC),
        onset_uncertainty_s=round(step, 3),
        strength=STOPPED_STRENGTH,
        sentence=f"The {signal_name(signal)} of {subject_name(service)} has had no data for the "
        f"last {number(minutes, 3)} min, {rest}.",
        numbers=numbers,
        evidence=case.evidence_ids("metrics"),
        series={"table": "metrics", "service": service, "signal": signal},
        details=AlertHistoryDetails(
            others_of_service=count, fix=SERIES_GONE if count else SERVICE_GONE
        ),
    )
    return [finding]


def _usual_move(case: Case, findings: Sequence[Finding]) -> list[Finding]:
    """The alerting signal moves as it did several times in the baseline."""
    alert = case.alert
    about = [f for f in findings if f.subject == alert.service and f.signal == alert.signal]
    moves = usual_moves(case, about)
    if not moves:
        return []
    # They are the same series' findings, the strongest first: one is enough.
    key, move = next(iter(moves.items()))
    moved = next(finding for finding in about if (finding.id or finding.sentence) == key)
    hours = rounded(move.baseline_s / 3600, 2)
    minutes = rounded(max(move.longest_s / 60, 0.1), 2)
    wait = float(np.ceil(move.longest_s / 60) + 1)
    name = f"{plain(moved.subject)} {plain(moved.signal or '')}"
    usual = {
        "id": "",
        "kind": USUAL,
        "sentence": f"{name} went as far {counted(move.times, 'time')} in the {number(hours, 2)} h "
        f"before, for at most {number(minutes, 2)} min.",
        "numbers": {"times": float(move.times), "hours": hours, "minutes": minutes},
        "details": AlertHistoryDetails(
            fix=f"Let the monitor wait for {number(wait)} min before it fires."
        ),
    }
    return [moved.model_copy(update=usual)]


def _newest_elsewhere(case: Case) -> Sequence[tuple[str | None, float]]:
    """Service and newest point (s since 1970) of every other series in the window."""
    alert, windows = case.alert, metric_windows(case)
    other_service = (pl.col("service") != alert.service).fill_null(value=True)
    other_signal = pl.col("signal") != alert.signal
    rows = case.metrics.filter(windows.in_search("time"), other_service | other_signal)
    newest = (
        rows.group_by("service", "signal")
        .agg(pl.col("time").max().dt.epoch("ns"))
        .sort("service", "signal")
    )
    pairs = newest.select("service", "time").iter_rows()
    return [(service, at / 1e9) for service, at in pairs]
