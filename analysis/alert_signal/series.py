"""Which of the collected series is the one that an alert watches."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from faultline.analysis.alert_signal.rule_texts import normalized
from faultline.analysis.kinds.signals import PEER, SCRAPES, SignalClass, WatchedSignal, classify
from faultline.analysis.vocabulary import Alert

_QUANTILE = re.compile(r"_p?(50|75|90|95|99|999)_")
USUAL_QUANTILE = 0.99
"""Alerts on latency that say no quantile mean slow requests, not the median."""
_SHARE = re.compile(r"_(ratio|share|rate|percent\w*|pct)_")
_FACTORS = {
    ("s", "ms"): 1000.0,
    ("ms", "s"): 0.001,
    ("ratio", "%"): 100.0,
    ("%", "ratio"): 0.01,
}
"""What a threshold is multiplied by, from its unit to the series'."""
_ALIKE = {
    SignalClass.AVAILABILITY: (SignalClass.AVAILABILITY, SignalClass.RESTARTS),
    SignalClass.CONNECTIONS: (SignalClass.CONNECTIONS, SignalClass.QUEUE),
}


@dataclass(frozen=True)
class AlertingSeries:
    """A collected signal of a service and its unit."""

    signal: str
    unit: str | None


def alerting_series(
    metrics: pl.DataFrame, service: str, watched: WatchedSignal, title: str
) -> AlertingSeries | None:
    """The service's series that the alert watches: the metric by its name, else the one of its
    class that fits best; None where there is none."""
    if not metrics.height:
        return None
    rows = metrics.filter(pl.col("service") == service)
    if "labels" in rows.columns:
        rows = rows.filter(about_service())
    rows = rows.select("signal", "unit")
    series: list[AlertingSeries] = []
    for signal, unit in rows.unique(subset="signal").sort("signal").iter_rows():
        series.append(AlertingSeries(signal, unit))
    # What is collected of `up` is called by what it counts.
    metric_name = normalized(SCRAPES if watched.metric == "up" else watched.metric or "")
    for candidate in series:
        # A rule without a metric normalizes to `__`, which must match no series.
        if metric_name != "__" and normalized(candidate.signal) == metric_name:
            return candidate
    if watched.signal_class is SignalClass.OTHER:
        return None
    for signal_class in _ALIKE.get(watched.signal_class, (watched.signal_class,)):
        of_class = [series for series in series if classify(series.signal) is signal_class]
        if of_class:
            return _closest(of_class, watched, title)
    return None


def _closest(
    candidates: Sequence[AlertingSeries], watched: WatchedSignal, title: str
) -> AlertingSeries:
    if watched.signal_class is SignalClass.LATENCY:
        quantile = watched.quantile or USUAL_QUANTILE
        return min(
            candidates, key=lambda series: (abs(_quantile(series.signal) - quantile), series.signal)
        )
    parts = set(normalized(f"{watched.metric or ''} {title}").split("_"))

    def fit(candidate: AlertingSeries) -> tuple[bool, int, str]:
        words = normalized(candidate.signal)
        # Shares do not grow with traffic: of two series of one class they say more.
        is_share = _SHARE.search(words) is not None
        return not is_share, -len(parts.intersection(words.split("_"))), candidate.signal

    return min(candidates, key=fit)


def _quantile(signal: str) -> float:
    """The quantile that a series' name says; a mean lies near the median."""
    match = _QUANTILE.search(normalized(signal))
    if match is None:
        return 0.5
    return 0.999 if match[1] == "999" else float(match[1]) / 100


def in_unit(watched: WatchedSignal, series: AlertingSeries) -> float | None:
    """The rule's threshold in the unit of the series; None where a unit is unknown, since a number
    in the wrong unit misleads."""
    if watched.threshold is None:
        return None
    if watched.unit and watched.unit == series.unit:
        return watched.threshold
    factor = _FACTORS.get((watched.unit or "", series.unit or ""))
    return None if factor is None else watched.threshold * factor


def with_alerting_series(alert: Alert, metrics: pl.DataFrame) -> Alert:
    """The alert with the name of its signal among the metrics that were collected, where it names
    none itself, and with the rule's threshold in that series' unit."""
    watched = alert.watches
    if watched is None or alert.service is None or alert.signal is not None:
        return alert
    series = alerting_series(metrics, alert.service, watched, alert.title)
    if series is None:
        return alert
    update: dict[str, object] = {"signal": series.signal, "signal_source": watched.source}
    if alert.threshold is None and watched.threshold is not None:
        threshold = in_unit(watched, series)
        counts_missing = (watched.comparison or "").startswith(">")
        if threshold is not None and series.signal == SCRAPES and counts_missing:
            # The rule divides the targets that fail, and the series those that answer.
            threshold = 1 - threshold
        update["threshold"] = threshold
    return alert.model_copy(update=update)


def about_service() -> pl.Expr:
    """Which rows of a table with `labels` are about the service itself, and not about its calls."""
    return pl.col("labels").fill_null("").str.contains(f'"{PEER}":', literal=True).not_()
