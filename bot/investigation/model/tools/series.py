"""`series`: the metrics of a service beside their baseline and yesterday; with a resolution, as
numbers."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

import polars as pl
from pydantic import AwareDatetime, Field

from faultline.analysis.case.windows import metric_windows
from faultline.analysis.kinds.finding_details import ObservationDetails
from faultline.analysis.vocabulary import Finding, Window
from faultline.analysis.wording.amounts import Unit
from faultline.analysis.wording.phrases import number, plain
from faultline.bot.investigation.model.model_session import ModelSession
from faultline.bot.investigation.model.tools.contract import (
    Arguments,
    CallResult,
    InvalidCall,
    Row,
    Tool,
    case_service,
    clock,
    first_of,
    from_evidence,
    has,
    iso,
    observation,
    short_names,
    sparkline,
    window_of,
)
from faultline.bot.investigation.model.tools.metric_rows import (
    DAY,
    WEEK,
    SeriesSummary,
    labels_in,
    metric_rows,
    shown_labels,
    summaries,
)
from faultline.bot.runtime.threads import in_thread

MOST_AS_NUMBERS = 6
"""Series that are shown point by point."""
MOST_POINTS = 60
QUIET_SHOWN, LEAST_QUIET = 16, 6
"""Rows up to which series that are as usual are shown, and how many of them in any case."""
LONGEST = timedelta(hours=24)
NARROW = "narrow with signal or labels"


class SeriesArguments(Arguments):
    service: str = Field(description="The service, host or job whose metrics are meant.")
    signal: str | None = Field(
        default=None, description="A part of the signal's name, or null for all of them."
    )
    labels: str | None = Field(
        default=None, description="A part of the labels, such as a pod's or zone's name, or null."
    )
    resolution_s: int | None = Field(
        default=None,
        ge=1,
        le=86_400,
        description="Seconds of one point, to get numbers instead of a summary; else null.",
    )
    start: AwareDatetime | None = Field(
        default=None, description="With resolution_s: ISO 8601, or null for the incident."
    )
    end: AwareDatetime | None = Field(default=None, description="With resolution_s, or null.")


async def series(model_session: ModelSession, arguments: SeriesArguments) -> CallResult:
    """The series of a service that departed most, first."""
    service = case_service(model_session, arguments.service)
    chosen = await in_thread(_chosen, model_session, service, arguments)
    provenance = f"{from_evidence(model_session.case.evidence, 'metrics')}; times in UTC"
    if arguments.resolution_s is None:
        summed_rows = await in_thread(_summed, model_session, chosen)
        if not arguments.signal and not arguments.labels:
            summed_rows, quiet = _without_the_quiet(summed_rows)
        else:
            quiet = 0
        rows, cut = first_of(summed_rows, NARROW)
        note = f"{quiet} more series are as usual; name a signal to see them" if quiet else ""
        return CallResult(rows, provenance, note=note, cut=cut)
    window = window_of(model_session, arguments.start, arguments.end, LONGEST)
    # Negated twice, floor division rounds up.
    least = int(-(-window.seconds // MOST_POINTS))
    resolution_s, note = arguments.resolution_s, ""
    if resolution_s < least:
        note = f"at most {MOST_POINTS} points are shown, so every {least} s; ask for a shorter time"
        resolution_s = least
    series_summaries = await in_thread(summaries, model_session.case, chosen)
    shown, cut = first_of(series_summaries, NARROW, MOST_AS_NUMBERS)
    rows = await in_thread(_as_numbers, model_session, chosen, shown, window, resolution_s)
    return CallResult(rows, provenance, note=note, cut=cut)


def _without_the_quiet(rows: Sequence[Row]) -> tuple[list[Row], int]:
    """The series that moved, a few of the others, and how many of those are left out."""
    moved: list[Row] = []
    quiet: list[Row] = []
    for row in rows:
        details = ObservationDetails.of(row.finding) if row.finding is not None else None
        is_quiet = details is not None and details.departed is False
        (quiet if is_quiet else moved).append(row)
    shown = max(QUIET_SHOWN - len(moved), LEAST_QUIET)
    return [*moved, *quiet[:shown]], max(0, len(quiet) - shown)


def _chosen(model_session: ModelSession, service: str, arguments: SeriesArguments) -> pl.DataFrame:
    metrics = model_session.case.metrics.filter(pl.col("service") == service)
    if not metrics.height:
        raise InvalidCall(f"the case holds no metrics of {service}: `collect` may bring some")
    chosen = metrics
    if arguments.signal:
        # A literal, not a pattern: the model's text must not decide how long a search takes.
        text = pl.col("signal").fill_null("").str.to_lowercase()
        chosen = chosen.filter(text.str.contains(arguments.signal.lower(), literal=True))
    if arguments.labels:
        part = arguments.labels.lower().strip(" {}")
        # As they are stored, and as the answers show them.
        texts = [
            text
            for text in metrics["labels"].drop_nulls().unique()
            if part in f"{text}{shown_labels(text)}".lower()
        ]
        chosen = chosen.filter(pl.col("labels").is_in(texts))
    if not chosen.height:
        signals = short_names(metrics["signal"].unique().to_list(), 30)
        raise InvalidCall(f"no series of {service} matches; its signals are {signals}")
    return chosen


def _summed(model_session: ModelSession, metrics: pl.DataFrame) -> list[Row]:
    windows = metric_windows(model_session.case)
    start = windows.recent or min((w.start for w in windows.baseline), default=windows.search.start)
    end = windows.search.end
    rows = metric_rows(metrics, windows).filter(pl.col("time").is_between(start, end))
    summed_rows = []
    for summary in summaries(model_session.case, metrics):
        series_rows = _of(rows, summary)
        bars = sparkline(series_rows["time"], series_rows["value"], start, end)
        finding = finding_of(model_session, summary)
        beside = summary.beside()
        text = "; ".join(part for part in (finding.sentence.rstrip("."), beside, bars) if part)
        summed_rows.append(Row(text, finding=finding))
    return summed_rows


def finding_of(
    model_session: ModelSession,
    summary: SeriesSummary,
    points: Sequence[tuple[datetime, float]] = (),
) -> Finding:
    """A series as it is cited; with points, those are in its numbers and details."""
    departure = summary.departure
    numbers = summary.numbers
    for place, (_, value) in enumerate(points, start=1):
        numbers[f"point_{place}"] = value
    details = ObservationDetails(
        about="series",
        direction=summary.direction,
        departed=summary.departed if departure is not None else None,
        unit=summary.unit,
        labels=labels_in(summary.labels),
        points=tuple((iso(at), value) for at, value in points),
    )
    name = f"{plain(summary.service)} {plain(summary.signal)}{shown_labels(summary.labels)}"
    return observation(
        summary.service,
        summary.signal,
        f"{name} {summary.moved()}.",
        details,
        evidence=model_session.case.evidence_ids("metrics"),
        numbers=numbers,
        onset=departure.onset if departure is not None and departure.departed else None,
        series=summary.place,
    )


def _of(rows: pl.DataFrame, summary: SeriesSummary) -> pl.DataFrame:
    return rows.filter(
        pl.col("service") == summary.service,
        pl.col("signal") == summary.signal,
        pl.col("unit") == (summary.unit or ""),
        pl.col("labels") == summary.labels,
    )


def _as_numbers(
    model_session: ModelSession,
    metrics: pl.DataFrame,
    shown: Sequence[SeriesSummary],
    window: Window,
    resolution_s: int,
) -> list[Row]:
    rows = metric_rows(metrics, metric_windows(model_session.case))
    numbers = []
    for series_summary in shown:
        series_rows = _of(rows, series_summary)
        # Finer than it was measured there are only holes.
        step_s = max(resolution_s, round(series_summary.interval_s or 0))
        points = means(series_rows, window, step_s)
        finding = finding_of(model_session, series_summary, points)
        text = f"{finding.sentence.rstrip('.')}; {series_summary.beside()}"
        text += f"; every {step_s} s from {window.start:%Y-%m-%d} {clock(window.start)}"
        factor, unit = scale_of(series_summary.shown_unit)
        text += f"{f' in {unit}' if unit else ''}: "
        text += _numbers(points, window, step_s, factor)
        for name, ago in (("yesterday", DAY), ("last week", WEEK)):
            earlier = Window(start=window.start - ago, end=window.end - ago)
            past = means(series_rows, earlier, step_s)
            if past:
                text += f"; {name} {_numbers(past, earlier, step_s, factor)}"
        numbers.append(Row(text, finding=finding))
    return numbers


def means(rows: pl.DataFrame, window: Window, resolution_s: int) -> list[tuple[datetime, float]]:
    """The mean of each part of the window that has points, by where the part begins."""
    # Without the end, which would begin one more part.
    inside = rows.filter(pl.col("time") >= window.start, pl.col("time") < window.end)
    part = (pl.col("time") - window.start).dt.total_milliseconds() // (1000 * resolution_s)
    table = inside.group_by(part.alias("part")).agg(pl.col("value").mean()).sort("part")
    step = timedelta(seconds=resolution_s)
    return [(window.start + n * step, value) for n, value in table.iter_rows()]


def scale_of(unit: Unit) -> tuple[float, str]:
    """The factor and the name of one unit for all values of a row."""
    match unit.kind:
        case "time":
            return unit.factor * 1000, "ms"
        case "share":
            return unit.factor * 100, "%"
        case "bytes":
            return unit.factor / 1e6, "MB"
        case "bytes/s":
            return unit.factor / 1e6, "MB/s"
        case "rate":
            return unit.factor, "1/s"
        case "number":
            return unit.factor, unit.noun


def _numbers(
    points: Sequence[tuple[datetime, float]], window: Window, resolution_s: int, factor: float
) -> str:
    """Every part of the window, a dash where it has no point."""
    by_time = dict(points)
    step, at, numbers = timedelta(seconds=resolution_s), window.start, []
    while at < window.end:
        numbers.append(number(factor * by_time[at], 3) if at in by_time else "-")
        at += step
    # With commas: four numbers side by side can look like that of a card.
    return ", ".join(numbers)


SERIES = Tool(
    "series",
    "Metrics of a service: how each moved against its baseline, its usual range, yesterday, a "
    "sparkline. With resolution_s its values as numbers.",
    SeriesArguments,
    series,
    has("metrics"),
)
