"""How many requests of a service failed since a time: traffic times the share that fails, or counts
of errors.

Estimates: points are taken to stand for the time to the next one. Only signals that say what they
count are used: a share by its unit or name, traffic as a rate or as a count per point.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime

import polars as pl

from analysis.case.folder import Case
from analysis.case.windows import metric_windows
from analysis.kinds.signals import SignalClass, classify
from analysis.metrics.shifts import COUNTER, LARGEST

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
    rows = case.metrics.filter(pl.col("service") == service, pl.col("value").abs() <= LARGEST)
    rows = rows.with_columns(pl.col("unit", "labels").fill_null(""))
    during = _failing(
        rows.filter(windows.in_search("time"), pl.col("time") >= since), case.alert.signal
    )
    before = _failing(
        rows.filter(windows.in_baseline("time"), pl.col("time") < since), case.alert.signal
    )
    if (
        during is None
        or before is None
        or during[0] < max(LEAST_TIMES * before[0], before[0] + LEAST_SHARE)
    ):
        return None
    share, failed = during
    return FailingRequests(service, min(share, 1.0), failed, _users(case, service, since))


def _failing(rows: pl.DataFrame, wanted: str | None) -> tuple[float, float | None] | None:
    """Share and number of failing requests in these rows."""
    if not rows.height:
        return None
    traffic = _events(rows, SignalClass.TRAFFIC)
    return _share_by_metric(rows, wanted, traffic) or _share_by_counts(rows, traffic)


def _share_by_metric(
    rows: pl.DataFrame, wanted: str | None, traffic: pl.DataFrame
) -> tuple[float, float | None] | None:
    """Share and number by the series of a share that fails: the alert's own, or the one that fails
    most."""
    known = [(s, u, t) for s, u in _signals(rows) if (t := _as_share(s, u)) is not None]
    found = []
    for signal, unit, shortfall in known:
        own = rows.filter(pl.col("signal") == signal, pl.col("unit") == unit)
        top = float(own["value"].max() or 0.0)  # type: ignore[arg-type]
        whole = 100.0 if unit in ("percent", "%") or top > 1.0 else 1.0
        failing = (whole - pl.col("value") if shortfall else pl.col("value")) / whole
        part = own.with_columns(failing.clip(0, 1).alias("value"))
        if own.height >= MIN_POINTS:
            found.append((signal == wanted, *_weighed(part, traffic)))
    best = max(found, default=None, key=lambda one: (one[0], one[1]))
    return None if best is None else (best[1], best[2])


def _as_share(signal: str, unit: str) -> bool | None:
    """False for a share that fails, True for one that succeeds, None for what is neither.

    An availability in the unit `ratio` is that of instances (Prometheus's `up`), not of requests.
    """
    kind = classify(signal)
    if not (_SHARE_OF_REQUESTS.search(signal) or _OF_REQUESTS.search(signal)):
        return None
    if kind is SignalClass.ERRORS and (unit in _SHARE_UNITS or _SHARE_NAME.search(signal)):
        return False
    if kind is SignalClass.AVAILABILITY and (
        unit in ("percent", "%", "") or "success" in signal.lower()
    ):
        return True
    return None


def _weighed(part: pl.DataFrame, traffic: pl.DataFrame) -> tuple[float, float | None]:
    """Mean share and number of failed requests; traffic is matched by labels and time, else by
    time."""
    for keys in (["labels", "time"], ["time"]):
        own = part.group_by(keys).agg(pl.col("value").mean())
        both = own.join(traffic.group_by(keys).agg(pl.col("events").sum()), on=keys, how="inner")
        every = float(both["events"].sum())
        if both.height >= MIN_POINTS and every > 0:
            failed = float((both["value"] * both["events"]).sum())
            return failed / every, failed
    return float(part["value"].mean() or 0.0), None  # type: ignore[arg-type]


def _share_by_counts(
    rows: pl.DataFrame, traffic: pl.DataFrame
) -> tuple[float, float | None] | None:
    failed, every = (
        float(_events(rows, SignalClass.ERRORS)["events"].sum()),
        float(traffic["events"].sum()),
    )
    return (failed / every, failed) if 0 <= failed <= every and every > 0 else None


def _events(rows: pl.DataFrame, kind: SignalClass) -> pl.DataFrame:
    """labels, time, events: how many requests (or errors) each point stands for, by the signal that
    tells most."""
    empty = rows.select("labels", "time", pl.col("value").alias("events")).clear()
    tables = []
    for signal, unit in _signals(rows):
        if classify(signal) is not kind or re.search(COUNTER, signal):
            continue
        if kind is SignalClass.TRAFFIC and not _OF_REQUESTS.search(signal):
            continue
        own = rows.filter(pl.col("signal") == signal, pl.col("unit") == unit).sort("time")
        per_point = _per_point(signal, unit, own)
        if per_point is not None and own.height >= MIN_POINTS:
            tables.append(
                own.select("labels", "time", (pl.col("value") * per_point).alias("events"))
            )
    return max(tables, default=empty, key=lambda t: float(t["events"].sum()))


def _per_point(signal: str, unit: str, own: pl.DataFrame) -> float | None:
    """Events per unit of value at each point; None for what is neither a rate nor a count."""
    steps = own["time"].unique().sort().diff().drop_nulls().dt.total_milliseconds()
    seconds = float(steps.median() or 0) / 1000  # type: ignore[arg-type]
    if seconds <= 0:
        return None
    if unit in _PER_SECOND_UNITS or (_PER_SECOND_NAME.search(signal) and unit in _COUNT_UNITS):
        return seconds
    if unit == "1/min" or _PER_MINUTE_NAME.search(signal):
        return seconds / 60
    return (
        1.0
        if unit in _COUNT_UNITS and _COUNT_NAME.search(signal) and not _RATE_NAME.search(signal)
        else None
    )


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
    count = lines.select(pl.col("attributes").str.extract(_USER, 1).drop_nulls().n_unique()).item()
    return int(count) or None
