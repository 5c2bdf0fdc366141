"""How many requests of a service failed since a time: traffic times the share that fails, or counts
of errors.

Estimates: points are taken to stand for the time to the next one. Only signals that say what they
count are used: a share by its unit or name, traffic as a rate or as a count per point.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

import polars as pl

from faultline.analysis.alert_signal.series import about_service
from faultline.analysis.case.folder import Case
from faultline.analysis.case.windows import metric_windows
from faultline.analysis.kinds.signals import SignalClass, classify
from faultline.analysis.metrics.shifts import COUNTER, LARGEST

_SHARE_UNITS = frozenset({"ratio", "percent", "%"})
_SHARE_NAME = re.compile(r"(?i)ratio|percent|pct|share")
_PER_SECOND_UNITS = frozenset({"1/s", "/s", "req/s", "requests/s", "rps", "per second"})
_PER_SECOND_NAME = re.compile(r"(?i)(^|_)(rps|qps|request_rate|per_s(ec(ond)?)?)$")
_PER_MINUTE_NAME = re.compile(r"(?i)(^|_)(rpm|per_min(ute)?)$")
_COUNT_UNITS = frozenset({"", "count", "requests", "1"})
_COUNT_NAME = re.compile(
    r"(?i)requests|request_?count|invocations|calls|(^|_)(error|failure|5xx)(s|_?count)?$"
)
_OF_REQUESTS = re.compile(
    r"(?i)request|invocation|(^|_)(calls?|hits|queries|rps|qps|rpm|rpc|grpc|http)(_|$)"
)
"""Words of traffic that is requests: what is written, enriched or sent counts successes, and falls
with them."""
_SHARE_OF_REQUESTS = re.compile(
    r"(?i)^error_?(ratio|rate|percent|pct|share)$|availab|success|5xx|4xx"
)
_RATE_NAME = re.compile(r"(?i)rate|ratio|percent|pct|share|per_|avg|mean")
_USER = (
    r'"(?:user_?id|user\.id|enduser\.id|usr\.id|customer_?id|account_?id)":\s{0,4}"?([^",'
    r"}\s]{1,100})"
)
"""OpenTelemetry's enduser.id and user.id, Datadog's usr.id, and the plain names of structured
logs."""
_FAILING_LEVELS = frozenset({"error", "critical", "fatal", "err", "emergency", "alert", "severe"})
MIN_POINTS = 2
LEAST_SHARE = 0.0005
LEAST_TIMES = 2.0
"""Failing requests are the incident's when their share is twice the baseline's, and a twentieth of
a percent above."""


@dataclass(frozen=True)
class FailingRequests:
    """What failed of one service. `failed` is None where no traffic is known, `users` where nothing
    names them."""

    service: str
    share: float
    failed: float | None
    users: int | None


def failing_requests(case: Case, service: str, since: datetime) -> FailingRequests | None:
    """The estimate from `since` to the window's end; None where no more requests fail than in the
    baseline."""
    windows = metric_windows(case)
    rows = case.metrics.filter(
        pl.col("service") == service, pl.col("value").abs() <= LARGEST, about_service()
    )
    rows = rows.with_columns(pl.col("unit", "labels").fill_null(""))
    signal, time = case.alert.signal, pl.col("time")
    during = _failing(rows.filter(windows.in_search("time"), time >= since), signal)
    # Failures that are always there are not the incident's, so a baseline is needed.
    before = _failing(rows.filter(windows.in_baseline("time"), time < since), signal)
    if during is None or before is None:
        return None
    if during.share < max(LEAST_TIMES * before.share, before.share + LEAST_SHARE):
        return None
    users = _users(case, service, since)
    return FailingRequests(service, min(during.share, 1.0), during.failed, users)


class _Failed(NamedTuple):
    """Share of requests that failed, and how many; None where no traffic is known."""

    share: float
    failed: float | None


def _failing(rows: pl.DataFrame, alert_signal: str | None) -> _Failed | None:
    """What failed in these rows."""
    if not rows.height:
        return None
    traffic = _events(rows, SignalClass.TRAFFIC)
    return _share_by_metric(rows, alert_signal, traffic) or _share_by_counts(rows, traffic)


def _share_by_metric(
    rows: pl.DataFrame, alert_signal: str | None, traffic: pl.DataFrame
) -> _Failed | None:
    """By the series of a share that fails: the alert's own, or the one that fails most."""
    candidates: list[tuple[bool, _Failed]] = []
    for signal, unit in _signals(rows):
        succeeds = _as_share(signal, unit)
        series_rows = rows.filter(pl.col("signal") == signal, pl.col("unit") == unit)
        if succeeds is None or series_rows.height < MIN_POINTS:
            continue
        # The series as a share of 1 that fails.
        top = float(series_rows["value"].max() or 0.0)  # type: ignore[arg-type]
        # Percentages come without a unit as well.
        whole = 100.0 if unit in ("percent", "%") or top > 1.0 else 1.0
        value = pl.col("value")
        failing = (whole - value if succeeds else value) / whole
        failed = _weighted(series_rows.with_columns(failing.clip(0, 1).alias("value")), traffic)
        candidates.append((signal == alert_signal, failed))
    if not candidates:
        return None
    return max(candidates, key=lambda candidate: (candidate[0], candidate[1].share))[1]


def _as_share(signal: str, unit: str) -> bool | None:
    """False for a share that fails, True for one that succeeds, None for what is neither.

    An availability in the unit `ratio` is that of instances (Prometheus's `up`), not of requests.
    """
    if not _SHARE_OF_REQUESTS.search(signal) and not _OF_REQUESTS.search(signal):
        return None
    kind = classify(signal)
    if kind is SignalClass.ERRORS and (unit in _SHARE_UNITS or _SHARE_NAME.search(signal)):
        return False
    if kind is SignalClass.AVAILABILITY:
        is_of_requests = unit in ("percent", "%", "") or "success" in signal.lower()
        return True if is_of_requests else None
    return None


def _weighted(part: pl.DataFrame, traffic: pl.DataFrame) -> _Failed:
    """Traffic is matched by labels and time, else by time."""
    for keys in (["labels", "time"], ["time"]):
        averages = part.group_by(keys).agg(pl.col("value").mean())
        requests = traffic.group_by(keys).agg(pl.col("events").sum())
        both = averages.join(requests, on=keys, how="inner")
        every = float(both["events"].sum())
        if both.height >= MIN_POINTS and every > 0:
            failed = float((both["value"] * both["events"]).sum())
            return _Failed(failed / every, failed)
    return _Failed(float(part["value"].mean() or 0.0), None)  # type: ignore[arg-type]


def _share_by_counts(rows: pl.DataFrame, traffic: pl.DataFrame) -> _Failed | None:
    failed = float(_events(rows, SignalClass.ERRORS)["events"].sum())
    every = float(traffic["events"].sum())
    # More errors than requests: the two do not count the same.
    if every <= 0 or not 0 <= failed <= every:
        return None
    return _Failed(failed / every, failed)


def _events(rows: pl.DataFrame, kind: SignalClass) -> pl.DataFrame:
    """labels, time, events: how many requests (or errors) each point stands for, by the signal that
    tells most."""
    most = rows.select("labels", "time", pl.col("value").alias("events")).clear()
    most_events: float | None = None
    for signal, unit in _signals(rows):
        # Whether the signal counts requests, or errors, of this kind.
        if classify(signal) is not kind or re.search(COUNTER, signal):
            counts = False
        else:
            counts = kind is not SignalClass.TRAFFIC or _OF_REQUESTS.search(signal) is not None
        if not counts:
            continue
        series_rows = rows.filter(pl.col("signal") == signal, pl.col("unit") == unit).sort("time")
        per_point = _per_point(signal, unit, series_rows)
        if per_point is None or series_rows.height < MIN_POINTS:
            continue
        events = (pl.col("value") * per_point).alias("events")
        table = series_rows.select("labels", "time", events)
        total = float(table["events"].sum())
        # A signal may count a part of the requests only: the largest counts most of them.
        if most_events is None or total > most_events:
            most, most_events = table, total
    return most


def _per_point(signal: str, unit: str, series_rows: pl.DataFrame) -> float | None:
    """Events per unit of value at each point; None for what is neither a rate nor a count."""
    steps = series_rows["time"].unique().sort().diff().drop_nulls().dt.total_milliseconds()
    seconds = float(steps.median() or 0) / 1000  # type: ignore[arg-type]
    if seconds <= 0:
        return None
    if unit in _PER_SECOND_UNITS or (_PER_SECOND_NAME.search(signal) and unit in _COUNT_UNITS):
        return seconds
    if unit == "1/min" or _PER_MINUTE_NAME.search(signal):
        return seconds / 60
    if unit in _COUNT_UNITS and _COUNT_NAME.search(signal) and not _RATE_NAME.search(signal):
        return 1.0
    return None


def _signals(rows: pl.DataFrame) -> list[tuple[str, str]]:
    return sorted(rows.select("signal", "unit").unique().iter_rows())


def _users(case: Case, service: str, since: datetime) -> int | None:
    """Different users that the service's error lines name."""
    if not case.logs.height:
        return None
    lines = case.logs.filter(
        pl.col("service") == service,
        pl.col("time") >= since,
        pl.col("time") <= case.scope.incident.end,
        pl.col("level").str.to_lowercase().is_in(list(_FAILING_LEVELS)),
    )
    users = pl.col("attributes").str.extract(_USER, 1).drop_nulls()
    return int(lines.select(users.n_unique()).item()) or None
