"""Fresh state and comparisons: the series of an answer, read again from their sources.

Nothing is written: the connectors of an investigation are asked, within the same limits. The answer
says when it asked, and what could not be asked.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

import polars as pl

from faultline.analysis.case.readable_rows import readable_rows
from faultline.analysis.case.tables import METRICS
from faultline.analysis.errors import EvidenceError
from faultline.analysis.metrics.recovery import HALF_WAY
from faultline.analysis.vocabulary import Window
from faultline.analysis.wording.phrases import capitalised, plain
from faultline.bot.answer.lines import at, span_of
from faultline.bot.conversation import about_time
from faultline.bot.conversation.answered_case import AnsweredCase
from faultline.bot.conversation.measured import (
    CaseSeries,
    SeriesLevels,
    levels_of,
    median,
    named_series,
    points_of,
    series_of,
    telling_series,
)
from faultline.bot.intake.questions.slack_question import AnswerLine, AnswerText
from faultline.connectors.shared.contract.base import Collected, Connector, Request, collect_from


@dataclass(frozen=True)
class LookAnswer:
    """What a look at the sources gave. Not `useful` where they, and the case, tell nothing."""

    text: AnswerText
    useful: bool = True


Look = Callable[[Sequence[Connector]], Awaitable[LookAnswer]]
"""Asks sources, and words the answer."""

RECENT = timedelta(minutes=15)
LAST = timedelta(minutes=5)
"""What is now is the median of the last minutes, as one point may be an outlier."""
WITHIN_S = 25.0
MOST = 4


@dataclass(frozen=True)
class FreshReading:
    """What the sources gave for a window; `refused` says why some gave nothing."""

    metrics: pl.DataFrame
    sources: tuple[str, ...]
    refused: tuple[str, ...]


def still(answered: AnsweredCase, tokens: Sequence[str], services: Sequence[str]) -> Look:
    """Is it still happening? Asked now, of the sources that brought the metrics."""
    selected_series = _selected_series(answered, tokens, services)

    async def look(connectors: Sequence[Connector]) -> LookAnswer:
        now = answered.now
        recent = Window(start=now - RECENT, end=now)
        reading = await read_again(connectors, answered, recent, selected_series)
        values = {}
        for series in selected_series:
            points = points_of(reading.metrics, series)
            newest = points["time"].max()
            if isinstance(newest, datetime):
                value = median(points.filter(pl.col("time") >= newest - LAST))
                if value is not None:
                    values[series] = value
        if not values:
            return LookAnswer(_could_not_ask(answered, reading))
        return LookAnswer(_state_now(answered, reading, values))

    return look


def compare(
    answered: AnsweredCase, tokens: Sequence[str], services: Sequence[str], days: int
) -> Look:
    """The incident beside the same time that many days earlier."""
    selected_series = _selected_series(answered, tokens, services)
    shift = timedelta(days=days)
    incident = answered.case.scope.incident
    then = Window(start=incident.start - shift, end=incident.end - shift)

    async def look(connectors: Sequence[Connector]) -> LookAnswer:
        # What the case itself holds of that time: the same hours of earlier days are often there.
        reading: FreshReading | None
        metrics = answered.case.metrics.filter(pl.col("time").is_between(then.start, then.end))
        if any(points_of(metrics, case_series).height for case_series in selected_series):
            reading = FreshReading(metrics, (), ())
        else:
            reading = None
        if reading is None:
            reading = await read_again(connectors, answered, then, selected_series)
        return _beside(answered, reading, then, days, selected_series)

    return look


async def read_again(
    connectors: Sequence[Connector],
    answered: AnsweredCase,
    window: Window,
    selected_series: Sequence[CaseSeries],
) -> FreshReading:
    """Ask every source of metrics for a window, of the services of the wanted series alone. What
    fails is said, never raised."""
    able = [connector for connector in connectors if METRICS.name in connector.kinds]
    # The case has the baseline, so ask for the window alone.
    scope = answered.case.scope.model_copy(
        update={
            "incident": window,
            "baseline": (),
            "baseline_logs": None,
            "baseline_spans": None,
            "services": _services(answered, selected_series),
        }
    )
    with tempfile.TemporaryDirectory(prefix="faultline-again-") as scratch:
        request = Request(answered.case.alert, scope, Path(scratch))
        responses = await asyncio.gather(*(_collected(connector, request) for connector in able))
    tables, sources, refused = [], [], []
    for connector, collected in zip(able, responses, strict=True):
        try:
            table = _points(collected, window)
        except EvidenceError as error:
            refused.append(f"{connector.name}: {error}")
            continue
        if table.height:
            tables.append(table)
            sources.append(connector.name)
        else:
            reasons = [m.reason for m in collected.missing if m.kind == METRICS.name]
            refused.append(f"{connector.name}: {(reasons or ['no points for that time'])[0]}")
    rows = pl.concat(tables, how="diagonal_relaxed") if tables else answered.case.metrics.clear()
    return FreshReading(rows, tuple(sources), tuple(refused))


def _services(answered: AnsweredCase, selected_series: Sequence[CaseSeries]) -> tuple[str, ...]:
    """The services to ask about, as the scope names them. All of them, where the scope lacks one of
    the names: a source may call a service by another name than the scope."""
    alert, services = answered.case.alert, answered.case.scope.services
    named = {case_series.service for case_series in selected_series} - {alert.service}
    if not selected_series or not named.issubset(services):
        return services
    return tuple(name for name in services if name in named or name == alert.service)


def _points(collected: Collected, window: Window) -> pl.DataFrame:
    """Those of the window alone: a source that knows no other time must not pass for fresh."""
    table = collected.tables.get(METRICS.name, pl.DataFrame())
    if not table.height:
        return table
    rows = readable_rows(table, METRICS, METRICS.name).rows
    return rows.filter(pl.col("time").is_between(window.start, window.end))


async def _collected(connector: Connector, request: Request) -> Collected:
    try:
        async with asyncio.timeout(WITHIN_S):
            return await collect_from(connector, request)
    except TimeoutError:
        # No error: the other sources may have answered.
        return Collected()


def _selected_series(
    answered: AnsweredCase, tokens: Sequence[str], services: Sequence[str]
) -> list[CaseSeries]:
    """The series that are named, of a service that is named, or that the answer is about."""
    series = named_series(answered, tokens, services)
    if not series and services:
        series = series_of(answered, services)
    return (series or telling_series(answered))[:MOST]


def _state_now(
    answered: AnsweredCase, reading: FreshReading, values: dict[CaseSeries, float]
) -> AnswerText:
    levels = {series: levels_of(answered, series) for series in values}
    moved = [series for series in values if levels[series].finding is not None]
    out = [series for series in moved if _is_out(levels[series], values[series])]
    if out:
        state = f"Still going on: {_now(levels[out[0]], values[out[0]])}"
    elif moved:
        state = f"Back to normal: {_now(levels[moved[0]], values[moved[0]])}"
    else:
        first = next(iter(values))
        state = f"It did not move in the incident: {_now(levels[first], values[first])}"
    shown = (out or moved or list(values))[0]
    lines = tuple(
        AnswerLine(text=f"{capitalised(_now(levels[series], value))}.")
        for series, value in values.items()
        if series != shown
    )
    source = " and ".join(plain(name, 40) for name in reading.sources)
    sentence = f"I asked {source} at {at(answered.now)}."
    return AnswerText(lead=f"{state}. {sentence}", lines=lines, more=_resolved(answered))


def _now(levels: SeriesLevels, value: float) -> str:
    usual = levels.with_unit(levels.before)
    if levels.finding is None:
        return f"{levels.series.name} is {levels.with_unit(value)} now (usual: {usual})"
    return (
        f"{levels.series.name} is {levels.with_unit(value)} now "
        f"(usual: {usual}, in the incident: {levels.with_unit(levels.after)})"
    )


def _is_out(levels: SeriesLevels, value: float) -> bool:
    if levels.before is None or levels.after is None:
        return False
    move = levels.after - levels.before
    # A series that did not move has no half way, and nothing to divide by.
    return bool(move) and (value - levels.before) / move > HALF_WAY


def _could_not_ask(answered: AnsweredCase, reading: FreshReading) -> AnswerText:
    why = "; ".join(reading.refused[:2]) or "no source of metrics is connected"
    before = about_time.still(answered)
    return before.model_copy(
        update={"lead": f"I couldn't ask again ({plain(why, 200)}). {before.lead}", "more": ()}
    )


def _resolved(answered: AnsweredCase) -> tuple[str, ...]:
    resolved = answered.investigation.resolved_at
    return (f"The alert itself was resolved at {at(resolved)}",) if resolved else ()


def _beside(
    answered: AnsweredCase,
    reading: FreshReading,
    then: Window,
    days: int,
    selected_series: Sequence[CaseSeries],
) -> LookAnswer:
    when = "yesterday" if days == 1 else "last week" if days == 7 else f"{days} days earlier"
    lines = []
    for series in selected_series:
        value, levels = median(points_of(reading.metrics, series)), levels_of(answered, series)
        if value is not None:
            text = (
                f"{levels.with_unit(value)} {when}, {levels.with_unit(levels.after)} in the "
                "incident"
            )
            lines.append(AnswerLine(text=text, bold=plain(series.name, 100)))
    if lines:
        span = f"{then.start:%H:%M} to {then.end:%H:%M} UTC, {then.start:%a} {then.start.day}"
        phrase = f"The same time {when} ({span} {then.start:%b}) beside the incident:"
        return LookAnswer(AnswerText(lead=phrase, lines=tuple(lines)))
    why = "; ".join(reading.refused[:2]) or "no source of metrics is connected"
    usual = [levels_of(answered, case_series) for case_series in selected_series]
    shown = tuple(
        AnswerLine(text=f"{capitalised(series_levels.sentence)}.") for series_levels in usual
    )
    length = span_of(sum((w.end - w.start for w in answered.case.scope.baseline), timedelta(0)))
    more = (f"“Before” is the {length} before the incident",) if shown else ()
    phrase = f"I couldn't ask for the same time {when} ({plain(why, 200)}). What I have:"
    return LookAnswer(AnswerText(lead=phrase, lines=shown, more=more), useful=False)
