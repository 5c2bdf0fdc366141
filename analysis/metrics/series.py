"""The metrics of a case as matrices: series of similar length as rows, counters as rates,
availability as shortfall.

A row holds one (service, signal, unit, labels). Its baseline ends at the right edge of its matrix
and its searched points begin at the left edge of theirs, so that both side by side are one stretch
of time; NaN is "no point".
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import polars as pl

from faultline.analysis.case.folder import Case
from faultline.analysis.case.windows import Windows, metric_windows
from faultline.analysis.kinds.signals import SignalClass, classify
from faultline.analysis.metrics.gpu_signals import SIGNALS as GPU_SIGNALS
from faultline.analysis.metrics.shift_statistics import Bools, Floats, Ints

MIN_BASELINE_POINTS = 3
NEAR_CEILING = 0.9
LARGEST = 1e300
"""Values beyond this, and those that are not numbers, are no measurements."""
COUNTER = r"(?i)_(total|count|sum)$"
RISES = 0.9
"""A counter by its name and by this share of its baseline's steps; a gauge with such a name falls
as often."""
PER_SECOND = "per second"


@dataclass(frozen=True)
class Block:
    """Series of similar length as rows: keys, and times (ns) and values of the baseline and of what
    is searched.

    Where `ceiling` is finite the values are the shortfall from it: an availability of 99 % is read
    as 1 % failing. `pooled` is the signal's usual scale on other services; baseline points before
    `recent_ns` are of earlier days.
    """

    keys: pl.DataFrame
    before_times: Ints
    before: Floats
    times: Ints
    values: Floats
    pooled: Floats
    ceiling: Floats
    recent_ns: int


def blocks_of(case: Case) -> tuple[Block, ...]:
    """The blocks of a case's metrics, made once. Whoever reads them must not write to them."""
    if "metric_blocks" not in case.derived:
        made = tuple(metric_blocks(case.metrics, metric_windows(case)))
        case.derived["metric_blocks"] = made
    blocks: tuple[Block, ...] = case.derived["metric_blocks"]
    return blocks


def metric_blocks(metrics: pl.DataFrame, windows: Windows) -> Iterator[Block]:
    """Series in blocks of one power of two in both lengths: padding costs little, and windows are
    of like length."""
    series = _prepared(metrics, windows).filter(
        pl.col("before").list.len() >= MIN_BASELINE_POINTS, pl.col("values").list.len() >= 1
    )
    if not series.height:
        return
    sizes = [
        pl.col(c).list.len().log(2).ceil().cast(pl.Int32).alias(f"{c}_size")
        for c in ("before", "values")
    ]
    by = ["before_size", "values_size"]
    series = series.with_columns(sizes).sort(*by, "service", "signal", "labels", "unit")
    # Median standard deviation of each signal's baselines over the services where it is not flat.
    spread = series.select("signal", pl.col("before").list.std().alias("s")).filter(
        pl.col("s").is_finite() & (pl.col("s") > 0)
    )
    scales = dict(spread.group_by("signal").agg(pl.col("s").median()).iter_rows())
    recent = windows.recent
    # Without windows of earlier days every point is recent.
    recent_ns = int(pl.Series([recent]).dt.epoch("ns")[0]) if recent else np.iinfo(np.int64).min
    for _, block in series.group_by(by, maintain_order=True):
        pooled = np.array([scales.get(s, 0.0) for s in block["signal"]], dtype=np.float64)
        values, before = _padded(block["values"]), _padded(block["before"], at_end=True)
        # 1 or 100 for an availability that lives just below it, NaN for every other series.
        signals = block["signal"]
        top, usual = np.nanmax(before, axis=1), np.nanmedian(before, axis=1)
        # Only a series that lives just below 1, or 100, is a share of that.
        of_unit = (top <= 1.0) & (usual >= NEAR_CEILING)
        of_hundred = (top <= 100.0) & (usual >= 100 * NEAR_CEILING)
        is_availability = np.array(
            [classify(s) is SignalClass.AVAILABILITY for s in signals], dtype=bool
        )
        ceiling: Floats = np.where(
            is_availability & of_unit, 1.0, np.where(is_availability & of_hundred, 100.0, np.nan)
        )
        at_ceiling = np.isfinite(ceiling)
        values[at_ceiling] = ceiling[at_ceiling, None] - values[at_ceiling]
        before[at_ceiling] = ceiling[at_ceiling, None] - before[at_ceiling]
        times = _padded_times(block["times"])
        before_times = _padded_times(block["before_times"], at_end=True)
        keys = block.select("service", "signal", "unit", "labels")
        yield Block(keys, before_times, before, times, values, pooled, ceiling, recent_ns)


def _prepared(metrics: pl.DataFrame, windows: Windows) -> pl.DataFrame:
    # Infinite and absurd values would spoil every sum of their row.
    rows = metrics.filter(pl.col("value").abs() <= LARGEST, pl.col("service").is_not_null())
    rows = rows.filter(
        ~pl.col("signal").is_in(list(GPU_SIGNALS))
    )  # `gpu_health` compares these GPU by GPU
    rows = rows.with_columns(
        windows.in_baseline("time").alias("is_baseline"),
        windows.in_search("time").alias("is_search"),
    ).filter(pl.col("is_baseline") | pl.col("is_search"))
    keys = ["service", "signal", "unit", "labels"]
    rows = as_rates(
        rows.with_columns(pl.col("unit", "labels").fill_null(""))
        .group_by([*keys, "time"])
        .agg(pl.col("value").mean(), pl.col("is_baseline").first(), pl.col("is_search").first()),
        keys,
    ).sort("time")
    return rows.group_by(keys).agg(
        pl.col("time").filter("is_search").dt.epoch("ns").alias("times"),
        pl.col("value").filter("is_search").alias("values"),
        pl.col("time").filter("is_baseline").dt.epoch("ns").alias("before_times"),
        pl.col("value").filter("is_baseline").alias("before"),
    )


def as_rates(rows: pl.DataFrame, keys: list[str]) -> pl.DataFrame:
    """Steadily rising counters as their increase per second; an interval with a restart from zero
    is left out.

    A counter that mostly stands still (restarts, rare errors) keeps its level: its steps are the
    events.
    """
    named = pl.col("signal").str.contains(COUNTER)
    counters = rows.filter(named).sort([*keys, "time"])
    if not counters.height:
        return rows
    step = pl.col("value").diff().over(keys)
    seconds = pl.col("time").diff().over(keys).dt.total_nanoseconds() / 1e9
    counters = counters.with_columns(step.alias("step"), seconds.alias("seconds"))
    before = pl.col("step").filter(pl.col("is_baseline"))
    rising = ((before > 0).mean() >= RISES) & ((before < 0).mean() <= 1 - RISES)
    counters = counters.with_columns(rising.fill_null(value=False).over(keys).alias("rising"))
    # A fall is a restart: what was counted in between is unknown.
    rates = counters.filter("rising", pl.col("step") >= 0).with_columns(
        (pl.col("step") / pl.col("seconds")).alias("value"), pl.lit(PER_SECOND).alias("unit")
    )
    remaining_counters = counters.filter(~pl.col("rising"))
    return pl.concat(
        [rows.filter(~named), remaining_counters.select(rows.columns), rates.select(rows.columns)]
    )


def _padded(lists: pl.Series, *, at_end: bool = False) -> Floats:
    """Lists as rows, each at the left edge or `at_end` at the right one; NaN elsewhere."""
    places = _places(lists, at_end=at_end)
    matrix = np.full(places.shape, np.nan)
    matrix[places] = lists.explode(empty_as_null=False).to_numpy()
    return matrix


def _padded_times(lists: pl.Series, *, at_end: bool = False) -> Ints:
    """The same for times; 0 elsewhere."""
    places = _places(lists, at_end=at_end)
    matrix = np.zeros(places.shape, dtype=np.int64)
    matrix[places] = lists.explode(empty_as_null=False).to_numpy()
    return matrix


def _places(lists: pl.Series, *, at_end: bool) -> Bools:
    lengths = lists.list.len().to_numpy().astype(np.int64)
    width = int(lengths.max())
    columns = np.arange(width)[None, :]
    places: Bools = columns >= width - lengths[:, None] if at_end else columns < lengths[:, None]
    return places
