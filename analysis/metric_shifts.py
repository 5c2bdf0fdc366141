"""Which metric series left their baseline, when, by how much, and how far out of their own noise.

Each (service, signal) is compared with its baseline by `shift_statistics`; series are processed as matrices of
similar length, so the cost is a few numpy passes however many series there are.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import numpy as np
import polars as pl

from analysis.case_folder import Case
from analysis.gpu_signals import SIGNALS as GPU_SIGNALS
from analysis.shift_statistics import (
    Baseline,
    Bools,
    Departure,
    Floats,
    Ints,
    describe,
    find_departures,
    row_medians,
)
from analysis.signals import SignalClass, classify, is_bad, is_headroom
from analysis.vocabulary import Finding
from analysis.windows import Windows, metric_windows
from analysis.wording import number, plain, rounded

KIND = "metric_shift"
MIN_SIGMAS = 3.0
MIN_RELATIVE = 0.05
"""A move smaller than 3 sigmas or 5 % of the level is not reported."""
MIN_BASELINE_POINTS = 3
BRIEF_POINTS = 2
"""A departure of at most so few points must go beyond every baseline point: a bursty series has its spikes always."""
FLAT_FLOOR = 0.1
"""A flat baseline is given a tenth of the same signal's usual scale on other services, or of its own move."""
RECOVERED_SHARE = 0.25
"""Back to baseline: the last points are within a quarter of the move, or within 3 sigmas, of the baseline."""
LAST_POINTS = 3
NEAR_CEILING = 0.9
LARGEST = 1e300
"""Values beyond this, and those that are not numbers, are no measurements."""
COUNTER = r"(?i)_(total|count|sum)$"
RISES = 0.9
"""A counter by its name and by this share of its baseline's steps; a gauge with such a name falls as often."""
PER_SECOND = "per second"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class _Block:
    """Series of similar length as rows: their keys, times (ns), searched values and baseline values.

    Where `ceiling` is finite the values are the shortfall from it: an availability of 99 % is read as 1 % failing.
    """

    keys: pl.DataFrame
    times: Ints
    values: Floats
    baseline: Floats
    pooled: Floats
    ceiling: Floats


def metric_shifts(case: Case) -> list[Finding]:
    """One finding per (service, signal) that left its baseline; the strongest when labels split a signal."""
    if not case.metrics.height:
        return []
    windows = metric_windows(case)
    evidence = case.evidence_ids("metrics")
    found: dict[tuple[str, str], Finding] = {}
    for block in _blocks(case.metrics, windows):
        for finding in _shifts_of(block, evidence):
            key = (finding.subject, finding.signal or "")
            if key not in found or finding.strength > found[key].strength:
                found[key] = finding
    return [found[key] for key in sorted(found)]


def _prepared(metrics: pl.DataFrame, windows: Windows) -> pl.DataFrame:
    rows = metrics.filter(pl.col("value").abs() <= LARGEST, pl.col("service").is_not_null())
    rows = rows.filter(~pl.col("signal").is_in(list(GPU_SIGNALS)))  # `gpu_health` compares these GPU by GPU
    rows = rows.with_columns(
        windows.in_baseline("time").alias("is_baseline"), windows.in_search("time").alias("is_search")
    ).filter(pl.col("is_baseline") | pl.col("is_search"))
    keys = ["service", "signal", "unit", "labels"]
    rows = as_rates(
        rows.with_columns(pl.col("unit", "labels").fill_null(""))
        .group_by([*keys, "time"])
        .agg(pl.col("value").mean(), pl.col("is_baseline").first(), pl.col("is_search").first()),
        keys,
    )
    return rows.group_by(keys).agg(
        pl.col("time").filter("is_search").sort().dt.epoch("ns").alias("times"),
        pl.col("value").filter("is_search").sort_by(pl.col("time").filter("is_search")).alias("values"),
        pl.col("value").filter("is_baseline").sort_by(pl.col("time").filter("is_baseline")).alias("before"),
        pl.col("time").filter("is_baseline").max().dt.epoch("ns").alias("last_before"),
    )


def as_rates(rows: pl.DataFrame, keys: list[str]) -> pl.DataFrame:
    """Steadily rising counters as their increase per second; an interval with a restart from zero is left out.

    A counter that mostly stands still (restarts, rare errors) keeps its level: its steps are the events.
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
    rates = counters.filter("rising", pl.col("step") >= 0).with_columns(
        (pl.col("step") / pl.col("seconds")).alias("value"), pl.lit(PER_SECOND).alias("unit")
    )
    kept = counters.filter(~pl.col("rising"))
    return pl.concat([rows.filter(~named), kept.select(rows.columns), rates.select(rows.columns)])


def _blocks(metrics: pl.DataFrame, windows: Windows) -> Iterator[_Block]:
    """Series in blocks of one power of two in length, so that padding at most doubles the work."""
    series = _prepared(metrics, windows).filter(
        pl.col("before").list.len() >= MIN_BASELINE_POINTS, pl.col("values").list.len() >= 1
    )
    if not series.height:
        return
    size = pl.max_horizontal(pl.col("before").list.len(), pl.col("values").list.len())
    series = series.with_columns(size.log(2).ceil().cast(pl.Int32).alias("bucket")).sort(
        "bucket", "service", "signal", "labels", "unit"
    )
    scales = _usual_scales(series)
    for _, block in series.group_by("bucket", maintain_order=True):
        pooled = np.array([scales.get(s, 0.0) for s in block["signal"]], dtype=np.float64)
        values, before = _padded(block["values"]), _padded(block["before"])
        ceiling = _ceilings(block["signal"], before)
        at_ceiling = np.isfinite(ceiling)
        values[at_ceiling] = ceiling[at_ceiling, None] - values[at_ceiling]
        before[at_ceiling] = ceiling[at_ceiling, None] - before[at_ceiling]
        keys = block.select("service", "signal", "unit", "labels", "last_before")
        yield _Block(keys, _padded_times(block["times"]), values, before, pooled, ceiling)


def _ceilings(signals: pl.Series, before: Floats) -> Floats:
    """1 or 100 for an availability that lives just below it, NaN for every other series."""
    top, usual = np.nanmax(before, axis=1), np.nanmedian(before, axis=1)
    of_one = (top <= 1.0) & (usual >= NEAR_CEILING)
    of_hundred = (top <= 100.0) & (usual >= 100 * NEAR_CEILING)
    known = np.array([classify(s) is SignalClass.AVAILABILITY for s in signals], dtype=bool)
    ceiling: Floats = np.where(known & of_one, 1.0, np.where(known & of_hundred, 100.0, np.nan))
    return ceiling


def _usual_scales(series: pl.DataFrame) -> dict[str, float]:
    """Median standard deviation of each signal's baselines over the services where it is not flat."""
    spread = series.select("signal", pl.col("before").list.std().alias("s")).filter(
        pl.col("s").is_finite() & (pl.col("s") > 0)
    )
    return dict(spread.group_by("signal").agg(pl.col("s").median()).iter_rows())


def _padded(lists: pl.Series) -> Floats:
    lengths = lists.list.len().to_numpy()
    matrix = np.full((len(lengths), int(lengths.max())), np.nan)
    matrix[np.arange(matrix.shape[1])[None, :] < lengths[:, None]] = lists.explode(empty_as_null=False).to_numpy()
    return matrix


def _padded_times(lists: pl.Series) -> Ints:
    lengths = lists.list.len().to_numpy()
    matrix = np.zeros((len(lengths), int(lengths.max())), dtype=np.int64)
    matrix[np.arange(matrix.shape[1])[None, :] < lengths[:, None]] = lists.explode(empty_as_null=False).to_numpy()
    return matrix


def _shifts_of(block: _Block, evidence: tuple[str, ...]) -> Iterator[Finding]:
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        base = describe(block.baseline)
        scale = _floored(block, base)
        departure = find_departures((block.values - base.centre[:, None]) / scale[:, None])
        level = row_medians(block.values, departure.first, departure.last)
        lengths = np.isfinite(block.values).sum(axis=1)
        ends = row_medians(block.values, np.maximum(lengths - LAST_POINTS, 0), lengths - 1)
        sigmas = np.abs(level - base.centre) / scale
        relative = np.abs(level - base.centre) / np.maximum(np.abs(level), np.abs(base.centre))
    reported = (departure.first >= 0) & (sigmas >= MIN_SIGMAS) & (relative >= MIN_RELATIVE) & np.isfinite(sigmas)
    reported &= ~_seen_before(block, departure, level)
    for row in np.flatnonzero(reported):
        yield _finding(block, int(row), base, scale, departure, level, ends, evidence)


def _seen_before(block: _Block, departure: Departure, level: Floats) -> Bools:
    """Whether a departure of few points only goes where the baseline has been too."""
    columns = np.arange(block.values.shape[1])[None, :]
    inside = (columns >= departure.first[:, None]) & (columns <= departure.last[:, None])
    brief = (inside & np.isfinite(block.values)).sum(axis=1) <= BRIEF_POINTS
    within = np.where(
        departure.up, level <= np.nanmax(block.baseline, axis=1), level >= np.nanmin(block.baseline, axis=1)
    )
    seen: Bools = brief & within
    return seen


def _floored(block: _Block, base: Baseline) -> Floats:
    own_move = np.nanmax(np.abs(block.values - base.centre[:, None]), axis=1)
    floor = FLAT_FLOOR * np.where(block.pooled > 0, block.pooled, own_move)
    scale = np.where(base.scale > 0, base.scale, floor)
    usable: Floats = np.where(scale > 0, scale, 1.0)
    return usable


def _strength(sigmas: float, relative: float, points: int, baseline_points: int) -> float:
    """In [0, 1]: out of the noise, of a size that matters, held by several points, against a known baseline."""
    noise = 1.0 - np.exp(-sigmas / 5.0)
    size = relative / (relative + 0.15) * 1.15
    support = {1: 0.6, 2: 0.85}.get(points, 1.0) * min(1.0, (baseline_points + 2) / 14.0)
    return float(np.clip(noise * size * support, 0.0, 1.0))


def _finding(
    block: _Block,
    row: int,
    base: Baseline,
    scale: Floats,
    departure: Departure,
    level: Floats,
    ends: Floats,
    evidence: tuple[str, ...],
) -> Finding:
    service, signal, unit, _, last_before = block.keys.row(row)
    first, last = int(departure.first[row]), int(departure.last[row])
    sizes = float(base.centre[row]), float(level[row])
    ceiling = float(block.ceiling[row])
    before, after = sizes if np.isnan(ceiling) else (ceiling - sizes[0], ceiling - sizes[1])
    direction = "up" if after > before else "down"
    onset, uncertainty = _onset(block, row, first, last_before)
    move = abs(sizes[1] - sizes[0])
    away = abs(float(ends[row]) - sizes[0])
    recovered = away <= max(RECOVERED_SHARE * move, MIN_SIGMAS * float(scale[row]) * (move > 6 * scale[row]))
    sigmas = move / float(scale[row])
    relative = move / max(abs(sizes[0]), abs(sizes[1]))
    kind = classify(signal)
    ratio = after / before if before > 0 and after > 0 else None
    points = int(np.isfinite(block.values[row, first : last + 1]).sum())
    return Finding(
        id="",
        kind=KIND,
        subject=service,
        signal=signal,
        onset=onset,
        onset_uncertainty_s=uncertainty,
        effect=rounded(ratio if ratio is not None else after - before),
        effect_unit="x" if ratio is not None else (unit or None),
        strength=round(_strength(sigmas, relative, points, int(base.points[row])), 4),
        evidence=evidence,
        series={"table": "metrics", "service": service, "signal": signal},
        details={
            "class": kind.value,
            "direction": direction,
            "bad": is_bad(kind, direction, headroom=is_headroom(signal)),
            "recovered": bool(recovered),
            "sigmas": rounded(min(sigmas, 1e6), 3),
            "points": points,
            "baseline_points": int(base.points[row]),
        },
        **_said(service, signal, unit, direction, before, after, ratio),
    )


def _said(
    service: str, signal: str, unit: str, direction: str, before: float, after: float, ratio: float | None
) -> dict[str, object]:
    numbers = {"baseline": rounded(before), "incident": rounded(after)}
    verb = "rose" if direction == "up" else "fell"
    suffix = f" {plain(unit, 12)}" if unit else ""
    text = f"{plain(service)} {plain(signal)} {verb} from {number(before)} to {number(after)}{suffix}"
    if ratio is not None and ratio >= 1.05:
        numbers["ratio"] = rounded(ratio, 3)
        text += f" ({number(ratio, 3)}x)"
    elif before > 0 and 0 <= after < before:
        numbers["percent"] = rounded(100 * (after / before - 1), 3)
        text += f" ({number(100 * (after / before - 1), 3)} %)"
    return {"sentence": text + ".", "numbers": numbers}


def _onset(block: _Block, row: int, first: int, last_before: int | None) -> tuple[datetime, float]:
    """The time of the first departed point; it happened after the point before it, hence the uncertainty."""
    at = int(block.times[row, first])
    previous = int(block.times[row, first - 1]) if first > 0 else last_before
    uncertainty = (at - previous) / 1e9 if previous is not None and previous < at else 0.0
    usual = _usual_step(block.times[row][np.isfinite(block.values[row])])
    if first == 0 and usual is not None:
        uncertainty = min(uncertainty, 2 * usual)
    return _EPOCH + timedelta(microseconds=at // 1000), round(uncertainty, 3)


def _usual_step(times: Ints) -> float | None:
    return float(np.median(np.diff(times))) / 1e9 if len(times) > 1 else None


def shift_class(finding: Finding) -> SignalClass:
    """The class of the signal a metric finding is about."""
    return SignalClass(str(finding.details.get("class", SignalClass.OTHER.value)))
