"""`data`: what the case holds: windows, services with their signals, logs and spans, places, and
the connectors that may be asked.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import polars as pl
from pydantic import Field

from faultline.analysis.case.alert_place import place_of
from faultline.analysis.case.folder import Case
from faultline.analysis.case.tables import ROWS, SCHEMAS
from faultline.analysis.case.windows import Windows, log_windows, metric_windows, span_windows
from faultline.analysis.kinds.finding_details import ObservationDetails
from faultline.analysis.vocabulary import Finding
from faultline.analysis.wording.phrases import counted, number, plain
from faultline.bot.answer.writer.built_in import is_memory
from faultline.bot.investigation.model.model_session import ModelSession
from faultline.bot.investigation.model.tools.contract import (
    Arguments,
    CallResult,
    InvalidCall,
    Row,
    Tool,
    askable,
    case_service,
    first_of,
    moment,
    observation,
    quoted,
    short_names,
    span_of,
    sparkline,
)
from faultline.bot.investigation.model.tools.metric_rows import labels_in, shown_labels
from faultline.bot.runtime.threads import in_thread

MOST_SIGNALS = 12
"""Signals that the line of a service names."""
MOST_LABELS = 10
MOST_VALUES = 8
GAP = 3.0
"""Usual intervals without a point that make a gap."""


class DataArguments(Arguments):
    service: str | None = Field(
        default=None, description="One line a series of this service; null: one line a service."
    )


async def data(model_session: ModelSession, arguments: DataArguments) -> CallResult:
    """The windows and what is there; of one service each of its series."""
    if arguments.service is not None:
        service = case_service(model_session, arguments.service)
        rows, cut = first_of(
            await in_thread(_series, model_session, service), "use `series` with signal"
        )
        return CallResult(
            [_holds(model_session, service), *rows], "counted in the case's tables", cut=cut
        )
    rows, cut = first_of(await in_thread(_services, model_session), "give service")
    about = await in_thread(_about, model_session)
    return CallResult([*about, *rows], "counted in the case's tables", cut=cut)


def _about(model_session: ModelSession) -> list[Row]:
    """The windows, the places, the connectors, and what is not there."""
    case, incident = model_session.case, model_session.case.scope.incident
    rows = [Row(f"alert at {moment(case.alert.started_at)}; incident {span_of([incident])}")]
    metrics = metric_windows(case)
    rows.append(_baseline("baseline", metrics))
    for name, windows in (("logs", log_windows(case)), ("spans", span_windows(case))):
        if windows.baseline != metrics.baseline:
            rows.append(_baseline(f"baseline of {name}", windows))
    if metrics.search != incident:
        rows.append(Row(f"an onset is looked for from {span_of([metrics.search])}"))
    full, empty = [], []
    for name in SCHEMAS:
        count = getattr(case, name).height
        if count:
            full.append(f"{count} {ROWS[name]}")
        else:
            empty.append(ROWS[name])
    not_held = f"; not held: {', '.join(empty)}" if empty else ""
    rows.append(Row(f"held: {', '.join(full) or 'nothing'}{not_held}"))
    places = [f"{kind} {plain(value)}" for kind, value in place_of(case.alert).items()]
    collects = [f"{c.name}: {', '.join(c.kinds)}" for c in askable(model_session.connectors)]
    queries = [f"{c.name}: {c.query_language}" for c in model_session.answering]
    for head, text in (
        ("the alert is in", ", ".join(places)),
        ("labels of series:", _labels(model_session)),
        ("`collect` may ask", "; ".join(collects)),
        ("`query` may ask", "; ".join(queries)),
    ):
        if text:
            rows.append(Row(f"{head} {text}"))
    return rows


def _baseline(name: str, windows: Windows) -> Row:
    return Row(f"{name} {span_of(windows.baseline) or 'none'}")


def _labels(model_session: ModelSession) -> str:
    values: dict[str, set[str]] = {}
    for text in model_session.case.metrics["labels"].drop_nulls().unique().to_list():
        for label, value in labels_in(text).items():
            values.setdefault(label, set()).add(value)
    # Labels with the most values first: they tell the parts apart.
    ordered = sorted(values.items(), key=lambda item: (-len(item[1]), item[0]))
    phrases = [
        f"{n} ({short_names(label_values, MOST_VALUES)})"
        for n, label_values in ordered[:MOST_LABELS]
    ]
    return ", ".join(phrases)


def _services(model_session: ModelSession) -> list[Row]:
    counts = {name: _rows_of(model_session, name) for name in model_session.services()}
    # Names decide last, so that the order is the same in every run.
    ordered = sorted(counts, key=lambda name: (-counts[name], name))
    return [_holds(model_session, name) for name in ordered]


def _rows_of(model_session: ModelSession, service: str) -> int:
    tables = (
        model_session.case.metrics,
        model_session.case.logs,
        model_session.case.spans,
        model_session.case.changes,
    )
    return sum(table.filter(pl.col("service") == service).height for table in tables)


def _holds(model_session: ModelSession, service: str) -> Row:
    """A service and what there is of it."""
    case, numbers, parts = model_session.case, dict[str, float](), []
    signals = case.metrics.filter(pl.col("service") == service)["signal"].unique().to_list()
    if signals:
        numbers["signals"] = len(signals)
        parts.append(f"signals {short_names(signals, MOST_SIGNALS)}")
    for name, table in (("log line", case.logs), ("span", case.spans), ("change", case.changes)):
        count = table.filter(pl.col("service") == service).height
        if count:
            numbers[f"{name.replace(' ', '_')}s"] = count
            parts.append(counted(count, name))
    findings = sum(f.subject == service for f in model_session.diagnosis.findings)
    if findings:
        parts.append(counted(findings, "finding"))
    phrase = f"{plain(service)}: {'; '.join(parts) or 'nothing held'}"
    finding = observation(
        service,
        "data",
        f"{phrase}.",
        ObservationDetails(about="data"),
        evidence=[e.id for e in case.evidence if e.may_show(service)][:6],
        numbers=numbers,
    )
    return Row(phrase, finding=finding)


def _series(model_session: ModelSession, service: str) -> list[Row]:
    metrics = model_session.case.metrics.filter(
        pl.col("service") == service, pl.col("value").is_not_null()
    )
    keys = ["signal", "unit", "labels"]
    step = pl.col("time").diff().dt.total_milliseconds() / 1000
    table = (
        metrics.with_columns(pl.col("unit", "labels").fill_null(""))
        .sort([*keys, "time"])
        .group_by(keys, maintain_order=True)
        .agg(
            pl.len().alias("points"),
            pl.col("time").min().alias("first"),
            pl.col("time").max().alias("last"),
            step.median().alias("interval"),
            (step > GAP * step.median()).sum().alias("gaps"),
            step.max().alias("longest"),
        )
    )
    # Without series there may still be logs or spans, which the first row counts.
    if not table.height and not _rows_of(model_session, service):
        raise InvalidCall(f"the case holds nothing of {service}: `collect` may bring some")
    return [Row(_series_text(row)) for row in table.iter_rows(named=True)]


def _series_text(row: Mapping[str, Any]) -> str:
    phrase = f"{plain(row['signal'], 120)}{shown_labels(row['labels'])}: "
    phrase += f"{plain(row['unit'], 20)}, " if row["unit"] else ""
    phrase += f"{row['points']} points, {moment(row['first'])} to {moment(row['last'])}"
    if row["interval"]:
        phrase += f", every {number(row['interval'], 3)} s"
    if row["gaps"]:
        phrase += f", {row['gaps']} gaps, the longest {number(row['longest'], 3)} s"
    return phrase


DATA = Tool(
    "data",
    "What the case holds: windows, services with signals, logs, spans, changes, places, and the "
    "connectors that may be asked. With service: each of its series.",
    DataArguments,
    data,
)


# `finding`: everything about a finding: its numbers, the evidence and query behind it, its series
# as a sparkline.

MAX_DETAIL = 400
MAX_LIST = 24


class FindingArguments(Arguments):
    ids: list[str] = Field(min_length=1, max_length=6, description="Ids of findings, such as F3.")


async def findings(model_session: ModelSession, arguments: FindingArguments) -> CallResult:
    """The findings of these ids."""
    # Findings that memory brought are about earlier incidents.
    findings_by_id = {f.id: f for f in model_session.findings if not is_memory(f)}
    requested_findings = [
        findings_by_id[i]
        # Models often write an id as they see it, in brackets.
        for i in dict.fromkeys(i.strip("[]() ") for i in arguments.ids)
        if i in findings_by_id
    ]
    if not requested_findings:
        raise InvalidCall(f"no such finding; there are {', '.join(list(findings_by_id)[:60])}")
    rows = [row for finding in requested_findings for row in _rows(model_session.case, finding)]
    return CallResult(rows, "findings computed by code; quoted parts are foreign text")


def _rows(case: Case, finding: Finding) -> list[Row]:
    """Its sentence, then lines for its numbers, its details, and each query behind it."""
    phrase = f"{finding.kind} of {plain(finding.subject)}: {finding.sentence}"
    if finding.onset is not None:
        phrase += f" Onset {moment(finding.onset)}"
        uncertainty = finding.onset_uncertainty_s
        phrase += f" within {number(uncertainty, 2)} s." if uncertainty else "."
    phrase += f" Strength {number(finding.strength, 2)}."
    rows = [Row(f"{phrase} {_spark(case, finding) or ''}".strip(), finding=finding)]
    numbers = [f"{name} {number(value)}" for name, value in finding.numbers.items()]
    if numbers:
        rows.append(Row(f"{finding.id} numbers: {', '.join(numbers[:MAX_LIST])}"))
    for name, value in list(finding.details.written().items())[:MAX_LIST]:
        if value not in (None, "", [], {}):
            rows.append(Row(f"{finding.id} {plain(name, 60)}:", quoted(_short(value), MAX_DETAIL)))
    for item in [e for e in case.evidence if e.id in finding.evidence][:4]:
        window = f", {span_of([item.window])}" if item.window else ""
        text = f"{finding.id} rests on {item.id} of {plain(item.source, 60)}{window}; asked"
        rows.append(Row(text, quoted(item.query, MAX_DETAIL)))
    return rows


def _spark(case: Case, finding: Finding) -> str | None:
    series = finding.series
    if series.get("table") != "metrics":
        return None
    rows = case.metrics.filter(
        pl.col("service") == series.get("service"),
        pl.col("signal") == series.get("signal"),
        pl.col("value").is_finite(),
    )
    windows = [*case.scope.baseline[:1], case.scope.incident]
    start, end = min(w.start for w in windows), max(w.end for w in windows)
    rows = rows.filter(pl.col("time") >= start, pl.col("time") <= end)
    return sparkline(rows["time"], rows["value"], start, end) if rows.height else None


def _short(value: Any) -> str:
    """A detail in one line."""
    if isinstance(value, Mapping):
        return ", ".join(f"{k} {_short(v)}" for k, v in list(value.items())[:MAX_LIST])
    if isinstance(value, (list, tuple)):
        return ", ".join(_short(v) for v in value[:MAX_LIST])
    return number(value) if isinstance(value, float) else str(value)


FINDING = Tool(
    "finding",
    "All about findings: numbers, details, series as a sparkline over baseline and incident, "
    "evidence and queries.",
    FindingArguments,
    findings,
)
