"""The series of a case that a question names, and what each was before and in the incident."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

import polars as pl

from faultline.analysis.analyzers import finding_kind, is_training
from faultline.analysis.case.windows import metric_windows
from faultline.analysis.kinds.signals import SYMPTOMS, SignalClass, classify
from faultline.analysis.vocabulary import Evidence, Finding
from faultline.analysis.wording.amounts import Unit, amount, levels, unit_of
from faultline.analysis.wording.names import signal_name, subject_name
from faultline.analysis.wording.phrases import counted, number, plain
from faultline.bot.answer.lines import at
from faultline.bot.conversation.answered_case import AnsweredCase
from faultline.bot.intake.questions.slack_question import AnswerLine, AnswerText
from faultline.bot.intake.questions.subjects import metric_classes, quantile_in
from faultline.bot.intake.questions.words import listed

MOST_PAIRS = 2_000
ALIKE = 0.1
"""Levels that differ by less look the same in a graph of the series."""
LEAST_NAME = 4
"""A signal of a shorter name, such as `up`, is hardly meant by that word."""
_UNIT_WORDS = listed("ms s sec seconds percent ratio total bytes count per http")


@dataclass(frozen=True)
class CaseSeries:
    """One series by its service and signal, as the case names them."""

    service: str
    signal: str

    @property
    def name(self) -> str:
        """`p99 latency of checkout`."""
        return f"{signal_name(self.signal)} of {subject_name(self.service)}"


@dataclass(frozen=True)
class SeriesLevels:
    """Medians of a series: in the baseline, and in the incident from its onset on."""

    series: CaseSeries
    unit: Unit
    before: float | None
    after: float | None
    onset: datetime | None
    finding: Finding | None = None

    @property
    def sentence(self) -> str:
        """`p99 latency of payments: 78 ms before, 2.4 s since 14:20:00 UTC`."""
        name = self.series.name
        if self.before is None or self.after is None:
            level = self.after if self.after is not None else self.before
            return f"{name}: {self.with_unit(level)}, and nothing to compare that with"
        before, after = levels(self.before, self.after, self.unit)
        if self.finding is None or self.onset is None:
            same = abs(self.after - self.before) <= ALIKE * abs(self.before)
            stays = "; no change stands out" if same else ""
            return f"{name}: {before} before, {after} in the incident{stays}"
        return f"{name}: {before} before, {after} since {self.onset:%H:%M:%S} UTC"

    def with_unit(self, value: float | None) -> str:
        """A value of this series with its unit."""
        return "unknown" if value is None else amount(value, self.unit)


def all_series(answered: AnsweredCase) -> list[CaseSeries]:
    """Every series of the case."""
    pairs = answered.case.metrics.select("service", "signal").unique().drop_nulls()
    rows = pairs.sort("service", "signal").head(MOST_PAIRS).iter_rows()
    return [CaseSeries(service, signal) for service, signal in rows]


def named_series(
    answered: AnsweredCase, tokens: Sequence[str], services: Sequence[str]
) -> list[CaseSeries]:
    """The series that the words name, those of the alert and of the cause first; of the services
    alone, where some are named."""
    every = all_series(answered)
    classes = metric_classes(tokens)
    matches = [series for series in every if _is_spelled_out(series.signal, tokens)]
    matches = matches or _of_classes(every, classes)
    if not matches and SignalClass.ERRORS in classes:
        # Some vendors tell the share of requests that succeed instead.
        matches = _of_classes(every, {SignalClass.AVAILABILITY})
    quantile = quantile_in(tokens)
    # Where no series has the quantile, show what there is.
    exact = [series for series in matches if quantile and quantile in signal_name(series.signal)]
    return in_order(answered, [series for series in exact or matches if _is_of(series, services)])


def series_of(answered: AnsweredCase, services: Sequence[str]) -> list[CaseSeries]:
    """Those of some services, what their callers feel first."""
    series = [series for series in all_series(answered) if _is_of(series, services)]
    series = in_order(answered, series)
    return sorted(series, key=lambda series: classify(series.signal) not in SYMPTOMS)


def telling_series(answered: AnsweredCase) -> list[CaseSeries]:
    """The alerting series, and those of the impact and the first cause."""
    alert, first = answered.case.alert, answered.first
    cited = [*answered.diagnosis.impact.findings, *(first.findings if first else ())]
    series = all_series(answered)
    cited_series = dict.fromkeys(
        CaseSeries(f.subject, f.signal) for f in answered.some(cited) if f.signal is not None
    )
    alerting = CaseSeries(alert.service or "", alert.signal or "")
    return [
        case_series
        for case_series in (alerting, *(f for f in cited_series if f != alerting))
        if case_series in series
    ]


def in_order(answered: AnsweredCase, some: Iterable[CaseSeries]) -> list[CaseSeries]:
    """The alert's own first, then those that the answer rests on, then the strongest moves."""
    telling = telling_series(answered)
    alert = answered.case.alert

    def place(series: CaseSeries) -> tuple[bool, int, float, str]:
        finding = finding_on(answered, series)
        strength = finding.strength if finding else 0.0
        first = telling.index(series) if series in telling else len(telling)
        is_alerting = series.service == alert.service and series.signal == alert.signal
        return not is_alerting, first, -strength, series.service

    return sorted(some, key=place)


def levels_of(answered: AnsweredCase, series: CaseSeries) -> SeriesLevels:
    """What the series was before, and in the incident."""
    rows = points_of(answered.case.metrics, series)
    windows, finding = metric_windows(answered.case), finding_on(answered, series)
    onset = finding.onset if finding else None
    began = onset or answered.diagnosis.impact.since or answered.case.alert.started_at
    incident = rows.filter(windows.in_search("time"))
    after = incident.filter(pl.col("time") >= began)
    values = rows["value"].to_list()
    unit = unit_of(series.signal, vendor_unit(rows), values)
    before = median(rows.filter(windows.in_baseline("time")))
    return SeriesLevels(series, unit, before, median(after), onset, finding)


def points_of(metrics: pl.DataFrame, series: CaseSeries) -> pl.DataFrame:
    """The finite points of a series."""
    rows = metrics.filter(
        pl.col("service") == series.service, pl.col("signal") == series.signal
    ).drop_nulls("value")
    return rows.filter(pl.col("value").is_finite())


def finding_on(answered: AnsweredCase, series: CaseSeries) -> Finding | None:
    """The strongest finding about a series."""
    about = [
        f
        for f in answered.findings.values()
        if f.subject == series.service and f.signal == series.signal and f.series
    ]
    return max(about, key=lambda f: f.strength, default=None)


def median(rows: pl.DataFrame) -> float | None:
    """Of the values; None without any."""
    value = rows["value"].median()
    return value if isinstance(value, float) else None


def vendor_unit(rows: pl.DataFrame) -> str | None:
    """The unit that the vendor gives."""
    units = rows["unit"].drop_nulls()
    return str(units[0]) if len(units) else None


def offered(some: Iterable[CaseSeries], most: int = 6) -> str:
    """The series by name, for an answer that has not the one asked for."""
    return ", ".join(plain(series.name, 80) for series in list(some)[:most])


def _is_spelled_out(signal: str, tokens: Sequence[str]) -> bool:
    """Whether the words hold the signal's own name, or all of it but the unit."""
    if signal.casefold() in tokens:
        return True
    pieces = {p for p in re.split(r"[^a-z0-9]+", signal.casefold()) if p} - _UNIT_WORDS
    return sum(len(piece) for piece in pieces) >= LEAST_NAME and pieces <= set(tokens)


def _of_classes(some: Iterable[CaseSeries], classes: Container[SignalClass]) -> list[CaseSeries]:
    return [series for series in some if classify(series.signal) in classes]


def _is_of(series: CaseSeries, services: Sequence[str]) -> bool:
    service = series.service.casefold()
    # `job/rank 2` is also rank 2.
    return not services or any(
        service == s.casefold() or service.endswith(f"/{s.casefold()}") for s in services
    )


# `explain F3`: a finding with its numbers, how it was computed, what was asked for it, and what it
# counts for.

NUMBERS = 8
EVIDENCE = 3


def explain(answered: AnsweredCase, ids: tuple[str, ...]) -> AnswerText:
    """The first finding that is named; of several, the others by their sentences."""
    findings = answered.some(ids)
    unknown = [i for i in ids if i not in answered.findings]
    if not findings:
        have = ", ".join(list(answered.findings)[:12])
        more = (f"There are {have}{', …' if len(answered.findings) > 12 else ''}",) if have else ()
        return AnswerText(
            lead=f"There is no finding {', '.join(unknown[:3])} in this investigation.", more=more
        )
    finding = findings[0]
    lines = [answered.line(finding), AnswerLine(text=how(finding), bold="How")]
    lines += _numbers(finding)
    lines += [AnswerLine(text=_counts_for(answered, finding), bold="Counts for")]
    items = {e.id: e for e in answered.case.evidence}
    lines += [
        _query_line(answered, finding, items[e]) for e in finding.evidence[:EVIDENCE] if e in items
    ]
    if finding.details.fix:
        lines.append(AnswerLine(text=plain(finding.details.fix, 400), bold="What to do"))
    lines += [answered.line(f, f.id) for f in findings[1:4]]
    more = (f"There is no finding {', '.join(unknown[:3])}",) if unknown else ()
    phrase = f"{finding.id}: {finding.kind.replace('_', ' ')} of {plain(finding.subject, 80)}"
    # Without a series there is nothing to draw.
    return AnswerText(
        lead=phrase, lines=tuple(lines), more=more, chart=finding.id if finding.series else None
    )


def how(finding: Finding) -> str:
    """How a finding of its kind is computed; of a training job's, where the thresholds come
    from."""
    method = finding_kind(finding.kind).how
    source = finding.details.source
    if source and is_training(finding):
        return f"{method}; thresholds: {plain(source, 240)}"
    return method


def _numbers(finding: Finding) -> list[AnswerLine]:
    figures = [
        f"{k.replace('_', ' ')} {number(v)}" for k, v in list(finding.numbers.items())[:NUMBERS]
    ]
    strength = f"stands out from its own noise by {number(finding.strength, 2)} of 1"
    lines = [AnswerLine(text=" · ".join([*figures, strength]), bold="Numbers")]
    if finding.onset is not None:
        unsure = finding.onset_uncertainty_s
        lines.append(
            AnswerLine(
                text=at(finding.onset) + (f", ±{number(unsure, 2)} s" if unsure else ""),
                bold="Onset",
            )
        )
    return lines


def _counts_for(answered: AnsweredCase, finding: Finding) -> str:
    roles = [
        f"cause {c.rank}, {plain(c.subject, 60)}"
        for c in answered.causes
        if finding.id in c.findings
    ]
    roles += [
        f"against cause {c.rank}, {plain(c.subject, 60)}"
        for c in answered.causes
        if finding.id in c.contradicting
    ]
    roles += ["the impact"] if finding.id in answered.diagnosis.impact.findings else []
    return "; ".join(roles[:5]) or "nothing: no cause rests on it"


def _query_line(answered: AnsweredCase, finding: Finding, item: Evidence) -> AnswerLine:
    window = f", {at(item.window.start)} to {item.window.end:%H:%M:%S}" if item.window else ""
    rows = f", {counted(item.rows, 'row')}" if item.rows is not None else ""
    line = answered.statement(f"{plain(item.query, 240)}{window}{rows}", (finding.id,))
    return line.model_copy(update={"bold": plain(f"{item.source} {item.kind}", 60)})
