"""The series of the alert's own query as rows of the table `metrics`, where no query that is asked
by default brings what the alert watches."""

from __future__ import annotations

import json
import re

import polars as pl

from faultline.analysis.alert_signal.rule_texts import normalized
from faultline.analysis.alert_signal.series import with_alerting_series
from faultline.analysis.alert_signal.subjects import service_in
from faultline.analysis.kinds.signals import SignalClass, WatchedSignal, classify
from faultline.analysis.vocabulary import Alert, Scope

MOST_SERIES = 12
LEAST_POINTS = 8
"""Points with a value: fewer are no series that can be compared with a baseline."""
_REQUESTS = re.compile(r"(^|_)(https?|grpc|rpc|requests?|istio|envoy|response)(_|$)")
_COUNTER_END = re.compile(r"(_total|_bucket|_count|_sum)+$")


def with_signal(
    alert: Alert, metrics: pl.DataFrame, queried: pl.DataFrame, scope: Scope
) -> tuple[Alert, pl.DataFrame]:
    """The alert with the series that it watches, and the metrics that hold it: one that was
    collected, or that of its own query. `queried` is the table `alert_query`."""
    named = with_alerting_series(alert, metrics)
    watches = alert.watches
    # A share of slow requests is no percentile: where the threshold cannot be held against the
    # series, what the query gave says more.
    is_other = watches is not None and watches.threshold is not None and named.threshold is None
    if named.signal != alert.signal and is_other:
        exact, with_query = with_queried_series(alert, metrics, queried, scope)
        if exact.signal is not None:
            return exact, with_query
    return with_queried_series(named, metrics, queried, scope)


def with_queried_series(
    alert: Alert, metrics: pl.DataFrame, queried: pl.DataFrame, scope: Scope
) -> tuple[Alert, pl.DataFrame]:
    """The alert whose signal is its query's, with the metrics that hold it; both unchanged where
    the alert has a signal, or its query has no values. `queried` is the table `alert_query`."""
    if alert.signal is not None or alert.watches is None or not queried.height:
        return alert, metrics
    first = min([scope.incident.start, *(window.start for window in scope.baseline[:1])])
    rows = queried.filter(pl.col("time") >= first, pl.col("value").is_not_null())
    if rows.height < LEAST_POINTS:
        return alert, metrics
    true = rows.filter(pl.col("is_true") > 0)
    about = (true if true.height else rows)["series"].unique().to_list()
    named = {service_in(_labels(str(key)), None) or "" for key in about}
    service = alert.service
    if service is None and len(named) == 1:
        service = named.pop()
    if not service:
        return alert, metrics
    signal = signal_named(alert.watches)
    added = _metric_rows(alert, rows, service, signal)
    if added is None:
        return alert, metrics
    update: dict[str, object] = {
        "service": service,
        "signal": signal,
        "signal_source": alert.watches.source,
    }
    thresholds = rows["threshold"].drop_nulls()
    if alert.threshold is None and len(thresholds):
        update["threshold"] = float(thresholds[0])
    table = pl.concat([metrics, added.select(metrics.columns)])
    return alert.model_copy(update=update), table


def _metric_rows(
    alert: Alert, rows: pl.DataFrame, service: str, signal: str
) -> pl.DataFrame | None:
    """The rows of those series that may be the alert's own. Those of others are other alerts of the
    rule, under names that no catalogue has seen."""
    true = rows.filter(pl.col("is_true") > 0)
    # The series that are true first: the limit drops the others.
    keys = [*true["series"].unique().sort().to_list(), *rows["series"].unique().sort().to_list()]
    fired: list[str] = []
    for key in dict.fromkeys(keys):
        labels = _labels(str(key))
        agrees = all(alert.labels.get(name, value) == value for name, value in labels.items())
        named = service_in(labels, None)
        if agrees and (named in (None, service) or alert.labels.keys() & labels.keys()):
            fired.append(key)
    keys = fired[:MOST_SERIES]
    if not keys:
        return None
    units = rows["unit"].drop_nulls().to_list()
    watched_unit = alert.watches.unit if alert.watches is not None else None
    unit = units[0] if units else watched_unit
    by_series = pl.col("series") if len(keys) > 1 else pl.lit(None, dtype=pl.String())
    return rows.filter(pl.col("series").is_in(keys)).select(
        "time",
        pl.lit(service).alias("service"),
        pl.lit(signal).alias("signal"),
        "value",
        pl.lit(unit, dtype=pl.String()).alias("unit"),
        by_series.alias("labels"),
    )


def signal_named(watched: WatchedSignal) -> str:
    """What the query's series is called: the metric's name with what the rule makes of it, so that
    its class can be read from it again."""
    metric = _COUNTER_END.sub("", normalized(watched.metric or "").strip("_"))
    is_share = watched.unit in ("ratio", "%")
    name = metric or "alert_query"
    if watched.signal_class is SignalClass.LATENCY:
        if is_share:
            return "on_time_share" if (watched.comparison or "").startswith("<") else "slow_share"
        if watched.quantile is not None:
            name = f"{name}_p{round(100 * watched.quantile)}"
    # Histograms of durations count requests too: a share of them is no time.
    if is_share and watched.signal_class is SignalClass.ERRORS and _REQUESTS.search(metric):
        return "error_ratio"
    if is_share and not name.endswith(("_ratio", "_share")):
        name = f"{name}_ratio"
    if watched.signal_class in (SignalClass.OTHER, classify(name)):
        return name
    # The rule says more than the name: an age of a file is a job's.
    by_class = f"{watched.signal_class.value}_{name}"
    return by_class if classify(by_class) is watched.signal_class else name


def _labels(key: str) -> dict[str, str]:
    labels = json.loads(key)
    return {str(name): str(value) for name, value in labels.items()}
