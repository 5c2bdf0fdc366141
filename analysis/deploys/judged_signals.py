"""The signals of a service that a deploy is judged by, as series whose rise is bad.

Counters become events per second. What adds up over instances is added up (requests, errors,
restarts), everything else is averaged. Errors are divided by requests where both are known.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from faultline.analysis.deploys.verdict import Group
from faultline.analysis.kinds.signals import RESOURCES, SignalClass, classify, is_headroom, parts_of
from faultline.analysis.logs.lines import described, log_events
from faultline.analysis.logs.miner import key_words
from faultline.analysis.metrics.series import COUNTER, LARGEST, PER_SECOND, RISES, labels_of

Floats = NDArray[np.float64]

GROUPS: Mapping[SignalClass, Group] = {
    SignalClass.ERRORS: Group.ERRORS,
    SignalClass.AVAILABILITY: Group.ERRORS,
    SignalClass.LATENCY: Group.LATENCY,
    SignalClass.TRAFFIC: Group.THROUGHPUT,
    SignalClass.CPU: Group.SATURATION,
    SignalClass.MEMORY: Group.SATURATION,
    SignalClass.CONNECTIONS: Group.SATURATION,
    SignalClass.QUEUE: Group.SATURATION,
    SignalClass.RESTARTS: Group.RESTARTS,
}
_SHARE = re.compile(r"(?i)ratio|percent|pct|share|availab|success")
_SHARE_UNITS = frozenset({"ratio", "percent", "%"})
_PER_SECOND_UNITS = frozenset({"1/s", "/s", "req/s", "requests/s", "rps", "per second"})
_REQUESTS = re.compile(r"(?i)request|invocation|(^|_)(calls?|hits|queries|rps|qps|rpc)(_|$)")
_PER_SECOND_NAME = re.compile(r"(?i)(^|_)(rps|qps|request_rate|per_s(ec(ond)?)?)$")
_OF_CALLEES = re.compile(r"(?i)(^|[._])client([._]|$)|client_?lat")
"""What the service waits for when it calls others: their deploys show in it, not its own."""
_OF_SINGLE_REQUEST = re.compile(r"(?i)[._]max(imum)?$")
"""A maximum is the doing of a single request: it is another one in every healthy window."""
_LOGGED = re.compile(r"(?i)(^|[._])log(ged|s)?[._]")
"""Lines that a log store counts: an error line is not yet a request that failed."""
_TOTAL_TIME = re.compile(r"(?i)^(?P<of>.+?(seconds|milliseconds|duration))_sum$")
MEAN = "_mean"
_ADD_UP = (Group.ERRORS, Group.THROUGHPUT, Group.RESTARTS, Group.LOGS)
_KEYS = ["signal", "unit", "labels"]


@dataclass(frozen=True)
class JudgedSeries:
    """One signal of a service, or of one part of it. `values` are as recorded, as shares of 1
    where `is_share`, and per second or per point where they count."""

    signal: str
    unit: str | None
    group: Group
    times: Floats
    values: Floats
    is_share: bool = False
    falls: bool = False
    """Whether a fall is the bad move."""
    is_rest: bool = False
    """Whether the values are what is left of the recorded share to 1: of availability."""
    per_second: bool = False
    parts: Mapping[str, str] | None = None
    """The part that it is of, by kind; None for the whole service."""

    @property
    def interval_s(self) -> float:
        """Usual time between two points."""
        return float(np.median(np.diff(self.times))) if len(self.times) > 1 else math.nan


def judged_series(metrics: pl.DataFrame, service: str) -> list[JudgedSeries]:
    """Every signal of the service that says something of a deploy: whole, and by its parts."""
    rows = metrics.filter(
        pl.col("service") == service, pl.col("value").abs() <= LARGEST
    ).with_columns(pl.col("unit", "labels").fill_null(""))
    series: list[JudgedSeries] = []
    for signal in sorted(rows["signal"].unique()):
        group = _group_of(signal)
        if group is not None:
            series += _of_signal(rows.filter(pl.col("signal") == signal), signal, group)
    return [*_with_shares(series), *_mean_latencies(rows)]


def _group_of(signal: str) -> Group | None:
    """What a signal is judged as; None where it says nothing about a deploy."""
    group = GROUPS.get(classify(signal))
    if group is Group.THROUGHPUT and not _REQUESTS.search(signal):
        return None
    if _OF_CALLEES.search(signal) or _OF_SINGLE_REQUEST.search(signal):
        return None
    return Group.LOGS if group is Group.ERRORS and _LOGGED.search(signal) else group


def _mean_latencies(rows: pl.DataFrame) -> Iterator[JudgedSeries]:
    """The mean latency from two counters: time spent on requests, and their number."""
    signals = set(rows["signal"].unique())
    for signal in sorted(signals):
        match = _TOTAL_TIME.match(signal)
        if match is None or f"{match['of']}_count" not in signals or _OF_CALLEES.search(signal):
            continue
        spent, requests = (
            _joined(_rates(rows.filter(pl.col("signal") == name), name), name, "", Group.THROUGHPUT)
            for name in (signal, f"{match['of']}_count")
        )
        mean, usable = _divided(spent, requests)
        if not bool(usable.any()):
            continue
        unit = "ms" if "milli" in signal else "s"
        name = f"{match['of']}{MEAN}"
        yield JudgedSeries(name, unit, Group.LATENCY, spent.times[usable], mean[usable])


def requests_between(series: list[JudgedSeries], start: float, end: float) -> float | None:
    """Requests that the service took in that time; None where its traffic is not known."""
    most: float | None = None
    for signal_series in series:
        if signal_series.group is not Group.THROUGHPUT or signal_series.parts is not None:
            continue
        inside = signal_series.values[(signal_series.times >= start) & (signal_series.times <= end)]
        inside = inside[np.isfinite(inside)]
        # Multiply a rate by the time that a point stands for, which gives a count.
        interval_s = signal_series.interval_s if signal_series.per_second else 1.0
        count = (
            float(inside.sum()) * interval_s if len(inside) and math.isfinite(interval_s) else 0.0
        )
        most = count if most is None else max(most, count)
    return most


def _of_signal(rows: pl.DataFrame, signal: str, group: Group) -> Iterator[JudgedSeries]:
    rows = _rates(rows, signal)
    for unit in sorted(rows["unit"].unique()):
        unit_rows = rows.filter(pl.col("unit") == unit)
        parts = {text: parts_of(labels_of(text)) for text in unit_rows["labels"].unique()}
        whole = [text for text, part in parts.items() if not part]
        # Without a series of the whole service its parts together stand for it.
        yield _joined(
            unit_rows.filter(pl.col("labels").is_in(whole or list(parts))), signal, unit, group
        )
        split = [text for text, part in parts.items() if part]
        # Other signals differ between parts without any fault: load, traffic.
        if len(split) < 2 or group not in (Group.ERRORS, Group.LATENCY):
            continue
        by_part: dict[tuple[tuple[str, str], ...], list[str]] = {}
        for text in split:
            by_part.setdefault(tuple(sorted(parts[text].items())), []).append(text)
        for part, texts in sorted(by_part.items()):
            remaining_rows = unit_rows.filter(pl.col("labels").is_in(texts))
            yield _joined(remaining_rows, signal, unit, group, dict(part))


def _rates(rows: pl.DataFrame, signal: str) -> pl.DataFrame:
    """Counters as their increase per second; what falls as often as it rises is a gauge."""
    if not re.search(COUNTER, signal) and classify(signal) is not SignalClass.RESTARTS:
        return rows
    rows = rows.sort([*_KEYS, "time"])
    step = pl.col("value").diff().over(_KEYS)
    seconds = pl.col("time").diff().over(_KEYS).dt.total_nanoseconds() / 1e9
    rows = rows.with_columns(step.alias("step"), seconds.alias("seconds"))
    moves = rows["step"].drop_nulls()
    if moves.len() and float((moves < 0).mean()) > 1 - RISES:  # type: ignore[arg-type]
        return rows.drop("step", "seconds")
    value = pl.col("step") / pl.col("seconds")
    remaining_rows = rows.filter(pl.col("step") >= 0, pl.col("seconds") > 0)
    return remaining_rows.with_columns(value.alias("value"), pl.lit(PER_SECOND).alias("unit"))


def _joined(
    rows: pl.DataFrame,
    signal: str,
    unit: str,
    group: Group,
    parts: Mapping[str, str] | None = None,
) -> JudgedSeries:
    """The rows as one series at their usual interval."""
    kind = classify(signal)
    top = float(rows["value"].max() or 0.0)  # type: ignore[arg-type]
    is_share = group is Group.ERRORS and bool(unit in _SHARE_UNITS or _SHARE.search(signal))
    per_second = unit in _PER_SECOND_UNITS or bool(_PER_SECOND_NAME.search(signal))
    adds_up = group in _ADD_UP and not is_share
    joined = _at_usual_interval(rows, adds_up=adds_up)
    values = joined["value"].to_numpy().astype(np.float64)
    is_rest = is_share and kind is SignalClass.AVAILABILITY
    shown_unit = unit or None
    if is_share:
        shown_unit = "ratio"
        # Vendors give 0 to 100 without a unit too: a share never exceeds 1.
        in_percent = unit in ("percent", "%") or top > 1.0
        values = values / (100.0 if in_percent else 1.0)
        values = np.clip(1.0 - values if is_rest else values, 0.0, 1.0)
    return JudgedSeries(
        signal,
        shown_unit,
        group,
        joined["last"].to_numpy().astype(np.float64),
        values,
        is_share=is_share,
        is_rest=is_rest,
        falls=group is Group.THROUGHPUT or (kind in RESOURCES and is_headroom(signal)),
        per_second=per_second,
        parts=parts,
    )


def _at_usual_interval(rows: pl.DataFrame, *, adds_up: bool) -> pl.DataFrame:
    """`at` (s), `value` of all series together, and `last`: the time of the last point (s)."""
    steps = rows.sort("time").select(pl.col("time").diff().over("labels").drop_nulls())
    usual = steps["time"].dt.total_nanoseconds().median() if steps.height else None
    step_s = max(1.0, float(usual or 1e9) / 1e9)  # type: ignore[arg-type]
    seconds = pl.col("time").dt.epoch("ns") / 1e9
    # Two series of one interval are scraped at different moments of it.
    place = ((seconds / step_s).floor() * step_s).alias("at")
    averages = rows.group_by(place, "labels").agg(
        pl.col("value").mean(), seconds.max().alias("last")
    )
    value = pl.col("value").sum() if adds_up else pl.col("value").mean()
    return averages.group_by("at").agg(value, pl.col("last").max()).sort("at")


def _with_shares(series: list[JudgedSeries]) -> Iterator[JudgedSeries]:
    """The series; errors as a share of the requests, where those are counted alike."""
    whole = [series for series in series if series.parts is None]
    traffic = [signal_series for signal_series in whole if signal_series.group is Group.THROUGHPUT]
    # A share that the vendor computes itself is better than one of two counters.
    has_share = any(signal_series.is_share for signal_series in whole)
    for errors in series:
        counts = errors.group is Group.ERRORS and not errors.is_share
        if not counts:
            yield errors
            continue
        matched = [two for two in traffic if two.per_second is errors.per_second]
        if has_share or not matched or errors.parts is not None:
            yield errors
            continue
        yield _share(errors, max(matched, key=lambda two: float(np.nansum(two.values))))


def _share(errors: JudgedSeries, traffic: JudgedSeries) -> JudgedSeries:
    share, usable = _divided(errors, traffic)
    # More errors than requests: the two do not count the same.
    if not bool(usable.any()) or float(share[usable].max()) > 1.0:
        return errors
    return JudgedSeries(
        errors.signal, "ratio", errors.group, errors.times[usable], share[usable], is_share=True
    )


def _divided(dividend: JudgedSeries, by: JudgedSeries) -> tuple[Floats, NDArray[np.bool_]]:
    """Each point by the nearest one of the other series, and where that is known."""
    if not len(by.times) or not len(dividend.times):
        return dividend.values, np.zeros(len(dividend.times), dtype=bool)
    places = np.searchsorted(by.times, dividend.times)
    near = np.clip(places, 0, len(by.times) - 1)
    before = np.clip(places - 1, 0, len(by.times) - 1)
    gap = np.abs(by.times[near] - dividend.times)
    gap_before = np.abs(by.times[before] - dividend.times)
    near = np.where(gap_before < gap, before, near)
    divisor = by.values[near]
    usable = (np.minimum(gap, gap_before) <= dividend.interval_s) & (divisor > 0)
    return dividend.values / np.where(divisor > 0, divisor, 1.0), usable


# The error lines of a service as series: how many there are, and how many of a kind that had not
# been seen before.


ERROR_LINES, NEW_ERROR_LINES = "error_lines", "new_error_lines"
STEP_S = 30.0
FORGOTTEN = 0.34
"""Share of the baseline in which every line is new because nothing was seen before: it only
teaches."""


@dataclass(frozen=True)
class LogSignals:
    """The series, and the commonest line that is new in the judged window."""

    series: tuple[JudgedSeries, ...]
    newest: str | None


def log_signals(logs: pl.DataFrame, service: str, start: float, end: float) -> LogSignals:
    """Error lines per second from the first line on; nothing where no line is known."""
    rows = logs.filter(pl.col("service") == service)
    first = rows["time"].dt.epoch("ns").min() if rows.height else None
    if first is None:
        return LogSignals((), None)
    begin = float(first) / 1e9  # type: ignore[arg-type]
    errors = described(log_events(rows)).filter("is_error")
    times = (errors["time"].dt.epoch("ns") / 1e9).to_numpy().astype(np.float64)
    kinds = [" ".join(key_words(text)) for text in errors["masked"]]
    length = end - start
    first_times: dict[str, float] = {}
    for time, kind in sorted(zip(times.tolist(), kinds, strict=True)):
        first_times.setdefault(kind, time)
    taught = begin + FORGOTTEN * (start - begin)
    # Counted from the judged window backwards, as its windows are.
    windows = np.floor((times - start) / length)
    born = np.floor((np.array([first_times[kind] for kind in kinds]) - start) / length)
    is_new = (windows == born) & (times >= taught)
    signals = [_per_second(ERROR_LINES, times, begin, end)]
    # Less than one quiet window cannot show how often new lines come anyway.
    if start - taught > length:
        signals.append(_per_second(NEW_ERROR_LINES, times[is_new], taught, end))
    inside = is_new & (times >= start) & (times <= end)
    commonest: str | None
    remaining_errors = errors.filter(pl.Series(inside, dtype=pl.Boolean))
    if not remaining_errors.height:
        commonest = None
    else:
        counts = remaining_errors.group_by("masked").agg(
            pl.len().alias("n"), pl.col("text").first()
        )
        commonest = str(counts.sort("n", "masked", descending=[True, False])["text"][0])
    return LogSignals(tuple(signals), commonest)


def _per_second(signal: str, times: Floats, begin: float, end: float) -> JudgedSeries:
    count = max(1, int((end - begin) // STEP_S))
    inside = times[(times >= end - count * STEP_S) & (times <= end)]
    # Count steps backwards from the end, so that the last one is whole.
    places = np.clip(((end - inside) // STEP_S).astype(np.int64), 0, count - 1)
    counts = np.bincount(places, minlength=count)[::-1] / STEP_S
    at = (end - (np.arange(count)[::-1] + 0.5) * STEP_S).astype(np.float64)
    return JudgedSeries(signal, "1/s", Group.LOGS, at, counts, per_second=True)
